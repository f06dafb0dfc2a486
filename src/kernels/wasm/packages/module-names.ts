import type { Distribution } from "./build/distribution.ts";

/** Modules whose package has a different name and is not in Pyodide's lock, or is better known under this one. */
const known: Record<string, string> = {
  attr: "attrs",
  bs4: "beautifulsoup4",
  Crypto: "pycryptodome",
  cv2: "opencv-python",
  dateutil: "python-dateutil",
  docx: "python-docx",
  dotenv: "python-dotenv",
  fitz: "pymupdf",
  git: "gitpython",
  jose: "python-jose",
  jwt: "pyjwt",
  Levenshtein: "python-levenshtein",
  magic: "python-magic",
  markdown_it: "markdown-it-py",
  mpl_toolkits: "matplotlib",
  multipart: "python-multipart",
  OpenSSL: "pyopenssl",
  PIL: "pillow",
  pkg_resources: "setuptools",
  pptx: "python-pptx",
  pylab: "matplotlib",
  serial: "pyserial",
  skimage: "scikit-image",
  sklearn: "scikit-learn",
  slugify: "python-slugify",
  socks: "pysocks",
  usb: "pyusb",
  yaml: "pyyaml",
  zmq: "pyzmq",
};

/** Modules of Pyodide or of a browser, and namespaces shared by many packages: no package has their name. */
const notPackages = new Set(["js", "pyodide", "pyodide_js", "azure", "win32api", "win32com", "pywintypes"]);

/** The package that provides a top-level module; undefined for names that cannot be a package's. */
export function packageOf(module: string, distribution: Distribution): string | undefined {
  if (!/^[A-Za-z][A-Za-z0-9_]*$/.test(module)) return undefined;
  if (known[module]) return known[module];
  const locked = Object.entries(distribution.packages).find(([, entry]) => entry.imports.includes(module));
  if (locked) return locked[0];
  return notPackages.has(module) ? undefined : module.toLowerCase().replaceAll("_", "-");
}
