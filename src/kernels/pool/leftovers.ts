/**
 * Sandboxes that may still have variables of a session that has moved on, by session name. If it returns there, they
 * must be cleared first, since they were reported as lost.
 */
export class Leftovers {
  readonly #places = new Map<string, Set<string>>();

  has(name: string, place: string): boolean {
    return this.#places.get(name)?.has(place) ?? false;
  }

  add(name: string, place: string): void {
    const places = this.#places.get(name) ?? new Set();
    this.#places.set(name, places.add(place));
  }

  cleared(name: string, place: string): void {
    const places = this.#places.get(name);
    places?.delete(place);
    if (places?.size === 0) this.#places.delete(name);
  }
}
