/** Pictures for the page of a document: the marks over a page, and a placeholder for a page without a picture. */
import { html } from '../http/html.ts'
import { findMatches, readSearch } from './page-section.ts'
import type { Visit } from './visit.ts'

/** Units of the picture, whose sides are stretched to those of the page. */
const units = 10_000
/** Space around a word, in units. */
const margin = 15

/** Placeholder for a page without a picture. */
export const noPicture =
  html`<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 1000 60"><text x="500" y="36" text-anchor="middle" font-family="system-ui, sans-serif" font-size="20" fill="#5c6370">No picture of this page</text></svg>`
    .markup

/** Returns a transparent picture with the words of a search on a page. */
export async function marksPicture({ client, id, query }: Visit, page: number): Promise<string> {
  const { pages } = page === 0 ? { pages: [] } : await findMatches(client, id, readSearch(query), { from: page, limit: 1, boxes: true })
  const boxes = pages[0]?.boxes ?? []
  const marks = boxes.map(({ left, top, width, height }) => {
    const [x, y] = [left * units - margin, top * units - margin].map(Math.round)
    const [w, h] = [width * units + 2 * margin, height * units + 2 * margin].map(Math.round)
    return html`<rect x="${x!}" y="${y!}" width="${w!}" height="${h!}"/>`
  })
  return html`<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 ${units} ${units}" preserveAspectRatio="none"><g fill="#ffdc4a">${marks}</g></svg>`
    .markup
}
