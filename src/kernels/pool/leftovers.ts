/**
 * Where variables of a session may still be after it has moved on, by its name: should it come back there, it must not
 * meet them again, since it was told that they are lost.
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
