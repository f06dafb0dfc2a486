/** Does one piece of work after another. One that fails does not keep the next from being done. */
export class Serial {
  #last: Promise<unknown> = Promise.resolve();

  do<T>(work: () => Promise<T>): Promise<T> {
    const turn = this.#last.then(work);
    this.#last = turn.catch(() => {});
    return turn;
  }

  /** Resolves when everything so far is done. */
  async done(): Promise<void> {
    await this.#last;
  }
}
