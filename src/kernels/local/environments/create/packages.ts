/** Packages of every managed environment. */
export const standardPackages = [
  "ipykernel",
  "nbformat",
  "numpy",
  "pandas",
  "matplotlib",
  "seaborn",
  "scipy",
  "scikit-learn",
  "plotly",
  "kaleido",
  "altair",
  "vl-convert-python",
  "sympy",
  "pillow",
  "openpyxl",
  "tqdm",
];

/** Packages that matter for the choice of an environment, in display order. */
const notable = [
  "numpy",
  "pandas",
  "polars",
  "matplotlib",
  "seaborn",
  "plotly",
  "altair",
  "bokeh",
  "scipy",
  "scikit-learn",
  "statsmodels",
  "xgboost",
  "lightgbm",
  "torch",
  "tensorflow",
  "jax",
  "transformers",
  "sympy",
  "networkx",
  "pyarrow",
  "duckdb",
  "xarray",
  "geopandas",
  "pillow",
  "opencv-python",
  "openpyxl",
  "requests",
];

export function notablePackages(distributions: Record<string, string>): Record<string, string> {
  const found = notable.flatMap((name) => (distributions[name] === undefined ? [] : [[name, distributions[name]]]));
  return Object.fromEntries(found);
}
