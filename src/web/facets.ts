/** Facets of a list of documents: counted values as links that add or remove a filter. */
import { typeByExtension } from '../extract/mime-types.ts'
import { html, type Markup, markup, nothing, typeName } from '../http/html.ts'

/** Values that are shown at once. */
const maxValues = 8

interface Facet {
  /** results by value */
  readonly counts: Readonly<Record<string, number>>
  readonly chosen: readonly string[]
  /** whether more documents match than were counted */
  readonly isCapped: boolean
  /** default: the value */
  readonly nameOf?: (value: string) => string
  pathWith(values: string[]): string
  /** default: most results first */
  readonly compare?: (one: [string, number], other: [string, number]) => number
}

/** Returns the heading and the links of a facet; empty if the facet has no values. */
export function facet(name: string, { counts, chosen, isCapped, nameOf = String, pathWith, compare = mostFirst }: Facet): Markup {
  const values = Object.entries(counts).toSorted(compare)
  if (values.length === 0) return nothing
  const item = ([value, count]: [string, number]): Markup => {
    const isChosen = chosen.includes(value)
    const path = pathWith(isChosen ? chosen.filter((one) => one !== value) : [...chosen, value])
    return html`<li><a href="${path}"${markup(isChosen ? ' aria-current="true"' : '')}><span>${nameOf(value)}</span> <span class="count">${count.toLocaleString('en')}${isCapped ? '+' : ''}</span></a></li>`
  }
  const rest = values.slice(maxValues)
  return html`<h2>${name}</h2><ul>${values.slice(0, maxValues).map(item)}</ul>${
    rest.length === 0 ? nothing : html`<details><summary>${rest.length} more</summary><ul>${rest.map(item)}</ul></details>`
  }`
}

const mostFirst = ([, one]: [string, number], [, other]: [string, number]): number => other - one

/** Returns the display names of media types. Those of equal name get their extension: there are two kinds of Word documents. */
export function typeNamesOf(types: readonly string[]): (type: string) => string {
  const names = types.map(typeName)
  return (type) => {
    const name = typeName(type)
    if (names.indexOf(name) === names.lastIndexOf(name)) return name
    const extension = Object.entries(typeByExtension).find(([, other]) => other === type)?.[0]
    return `${name} (${extension?.toUpperCase() ?? type})`
  }
}
