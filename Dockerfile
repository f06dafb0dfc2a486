# Cellwright over HTTP on port 8000, as an unprivileged user. See docs/kernels/pool.md, "In a container".
# `npm run fresh -- image` carries out these steps without a Docker engine.
FROM node:22-bookworm-slim AS build
WORKDIR /build
COPY package.json package-lock.json .npmrc ./
RUN npm ci
COPY . .
RUN node scripts/build.mjs && npm prune --omit=dev

FROM node:22-bookworm-slim
# Python for sessions, and bubblewrap for containers that may create namespaces.
RUN apt-get update \
  && apt-get install --yes --no-install-recommends bubblewrap python3 python3-venv \
  && rm -rf /var/lib/apt/lists/*
WORKDIR /app
COPY --from=build /build/package.json /build/README.md /build/LICENSE ./
COPY --from=build /build/node_modules ./node_modules
COPY --from=build /build/dist ./dist
# Not in the volume: the environment belongs to the image, and only root can change it.
RUN node dist/main.js env create --data-dir /opt/cellwright \
  && rm -rf /opt/cellwright/cache \
  && chmod -R a+rX /opt/cellwright
RUN mkdir /data && chown node:node /data
USER node
# Reachable from outside the container, so it does not start without CELLWRIGHT_AUTH_TOKEN or CELLWRIGHT_INSECURE.
ENV CELLWRIGHT_HOST=0.0.0.0 CELLWRIGHT_PORT=8000 CELLWRIGHT_DATA_DIR=/data CELLWRIGHT_ENV=/opt/cellwright/envs/managed
VOLUME /data
EXPOSE 8000
HEALTHCHECK --interval=10s --timeout=3s --start-period=10s \
  CMD ["node", "-e", "fetch('http://127.0.0.1:' + process.env.CELLWRIGHT_PORT + '/healthz').then((r) => process.exit(r.ok ? 0 : 1), () => process.exit(1))"]
ENTRYPOINT ["node", "/app/dist/main.js"]
CMD ["serve"]
