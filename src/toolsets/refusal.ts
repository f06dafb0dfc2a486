/** Error message and exit status of a program that refuses to start. */
export interface Refusal {
  message: string;
  exitCode: number;
}
