import { openImages } from "../app.ts";
import { OptionError, type Options } from "../options/options.ts";

/** Shows or removes the package images that sessions share. Returns the exit code. */
export async function packages(options: Options, action: string | undefined): Promise<number> {
  if (action !== "list" && action !== "prune") {
    throw new OptionError(
      "`cellwright packages` needs `list`, or `prune` to remove packages not used for --keep-days.",
    );
  }
  const images = await openImages(options);
  const shown =
    action === "list" ? await images.list() : await images.prune({ unusedForMs: options.keepDays * 86_400_000 });
  for (const image of shown) {
    const names = image.packages.map(({ name, version }) => `${name} ${version}`).join(", ");
    process.stdout.write(
      `${action === "prune" ? "removed " : ""}${image.id}  ${(image.sizeBytes / 1e6).toFixed(1)} MB  ${names}\n`,
    );
  }
  if (shown.length === 0)
    process.stdout.write(action === "list" ? "No packages are installed.\n" : "Nothing to remove.\n");
  await images.dispose();
  return 0;
}
