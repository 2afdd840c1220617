/**
 * Returns the normalized discounted cumulative gain of an order: 1 for the best order, less for each relevant document that comes late or not at
 * all.
 */
export function ndcg(found: readonly string[], relevance: Readonly<Record<string, number>>, depth = 10): number {
  const best = Object.values(relevance).sort((one, other) => other - one)
  const ideal = gain(best.slice(0, depth))
  return ideal === 0 ? 1 : gain(found.slice(0, depth).map((name) => relevance[name] ?? 0)) / ideal
}

const gain = (grades: readonly number[]): number => grades.reduce((sum, grade, place) => sum + (2 ** grade - 1) / Math.log2(place + 2), 0)
