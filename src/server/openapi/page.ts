/** Renders the OpenAPI document as a web page without external resources. Its script only searches the operations, and opens the one in the fragment of the URL. */
import { hash } from 'node:crypto'
import { html, htmlDocument, type Markup, markup, nothing, palette } from '../../http/html.ts'
import type { describe } from './openapi.ts'

type Description = ReturnType<typeof describe>

const style = `${palette}
:root{--get:#1a6b42;--post:#1f5fd0;--put:#7a5200;--delete:#b3261e}
@media(prefers-color-scheme:dark){:root{--get:#8fd8b0;--post:#9dbfff;--put:#f0c36a;--delete:#ffb4ab}}
html{scroll-padding-top:5rem}
main{max-width:66rem;margin:0 auto;padding:2rem 1rem 6rem;display:grid;grid-template-columns:12rem minmax(0,1fr);gap:0 2.5rem}
header{grid-column:1/-1}h1{margin:0 0 .4rem;font-size:1.6rem}h2{margin:2.2rem 0 .6rem;font-size:1.15rem}
a{color:var(--strong);text-underline-offset:.18em}.lead{margin:0 0 1rem;color:var(--quiet);max-width:46rem}
nav{position:sticky;top:0;align-self:start;max-height:100vh;overflow:auto;padding:1rem .3rem}
nav ul{list-style:none;margin:0;padding:0}nav a{display:flex;justify-content:space-between;padding:.2rem .5rem;border-radius:.4rem;color:inherit;text-decoration:none}
nav a:hover{background:var(--paper)}nav span,.facts,summary span{color:var(--quiet)}
.find{position:sticky;top:0;z-index:1;padding:.8rem 0;background:var(--back)}
label{display:block;font-weight:600;font-size:.9rem;margin-bottom:.25rem}
input{width:100%;min-height:2.75rem;padding:.4rem .8rem;font:inherit;color:inherit;background:var(--card);border:1px solid var(--edge);border-radius:.6rem}
output{color:var(--quiet);font-size:.9rem}
details{border:1px solid var(--line);border-radius:.6rem;margin:.45rem 0;background:var(--card)}
summary{display:flex;gap:.3rem .8rem;align-items:baseline;padding:.6rem .9rem;cursor:pointer;flex-wrap:wrap}
summary code{font-size:.95rem;overflow-wrap:anywhere}summary span{margin-left:auto;font-size:.9rem}
b{font:600 .75rem/1 ui-monospace,monospace;min-width:3.6rem}
.get{color:var(--get)}.post{color:var(--post)}.put{color:var(--put)}.delete{color:var(--delete)}
details>div{padding:.6rem 1rem 1rem;border-top:1px solid var(--line);overflow-wrap:anywhere}
h3{font-size:.9rem;margin:1rem 0 .3rem}table{border-collapse:collapse;width:100%;font-size:.9rem}td{padding:.25rem .8rem .25rem 0;vertical-align:top}
pre{background:var(--back);border-radius:.4rem;padding:.7rem;white-space:pre-wrap;font-size:.82rem;line-height:1.4;margin:.3rem 0}
[hidden]{display:none}
@media(max-width:46rem){main{grid-template-columns:minmax(0,1fr)}nav{position:static;max-height:none}nav ul{display:flex;flex-wrap:wrap;gap:.3rem}nav a{gap:.5rem;background:var(--card);border:1px solid var(--line)}}`

const script = `
const field = document.querySelector('#find')
const entries = [...document.querySelectorAll('details')].map((entry) => ({ entry, text: entry.querySelector('summary').textContent.toLowerCase() }))
const find = () => {
  const words = field.value.toLowerCase().split(/\\s+/).filter(Boolean)
  let count = 0
  for (const { entry, text } of entries) if ((entry.hidden = !words.every((word) => text.includes(word))) === false) count++
  for (const group of document.querySelectorAll('.group')) group.hidden = !group.querySelector('details:not([hidden])')
  document.querySelector('output').textContent = words.length ? count + ' of ' + entries.length + ' operations' : ''
}
const open = () => {
  const entry = document.getElementById(decodeURIComponent(location.hash.slice(1)))?.closest('details')
  if (entry) { entry.open = true; entry.scrollIntoView() }
}
document.querySelector('.find').hidden = false
field.addEventListener('input', find)
addEventListener('hashchange', open)
addEventListener('keydown', (event) => {
  const isShortcut = (event.ctrlKey || event.metaKey) && !event.altKey && !event.shiftKey && event.key.toLowerCase() === 'k'
  if (isShortcut) { event.preventDefault(); field.focus() }
})
open()`

const hashOf = (text: string): string => `'sha256-${hash('sha256', text, 'base64')}'`

/** Content-Security-Policy that allows the style sheet and the script of the page only. */
export const docsPolicy = `default-src 'none'; style-src ${hashOf(style)}; script-src ${hashOf(script)}; base-uri 'none'; form-action 'none'; frame-ancestors 'none'`

/** Returns the page as HTML: an index of the groups, and each operation under an anchor of its operation id. */
export function docsPage({ info, paths }: Description): string {
  const operations = Object.entries(paths).flatMap(([path, methods]) =>
    Object.entries(methods).map(([method, operation]) => ({ path, method, ...operation })),
  )
  const groups = [...Map.groupBy(operations, ({ tags }) => tags[0] ?? '')]
  return htmlDocument(
    'dms API',
    html`<style>${markup(style)}</style>`,
    html`<main>
<header><h1>dms API</h1><p class="lead">${info.description} For programs: <a href="openapi.json">openapi.json</a>.</p></header>
<nav aria-label="Groups"><ul>${groups.map(([tag, list]) => html`<li><a href="#${tag}">${tag} <span>${list.length}</span></a></li>`)}</ul></nav>
<div>
<div class="find" hidden><label for="find">Search operations</label><input id="find" type="search" autocomplete="off" aria-keyshortcuts="Control+K Meta+K"><output for="find"></output></div>
${groups.map(([tag, list]) => html`<section class="group" aria-labelledby="${tag}"><h2 id="${tag}">${tag}</h2>${list.map(entry)}</section>`)}
</div>
</main><script>${markup(script)}</script>`,
  )
}

type Entry = { path: string; method: string } & Description['paths'][string][string]

interface Parameter {
  name: string
  in: string
  required: boolean
  description?: string
  schema: { type?: string; enum?: unknown[]; default?: unknown }
}

function entry({ path, method, operationId, summary, description, security, parameters, requestBody, responses }: Entry): Markup {
  const inputs = (parameters as Parameter[]).map(
    ({ name, in: location, required, schema }) =>
      html`<tr><td><code>${name}</code><td>${location}${required ? ', required' : ''}<td>${schema.enum?.join(' | ') ?? schema.type ?? ''}${schema.default === undefined ? '' : `, default ${schema.default}`}`,
  )
  const bodies = Object.entries(requestBody?.content ?? {}).map(
    ([type, { example, schema }]) => html`<h3>Body: ${type}</h3>${code(example ?? schema.properties)}`,
  )
  const answers = Object.entries(responses).map(([status, { description: meaning, content }]) => {
    const example = Number(status) < 400 ? content?.['application/json']?.example : undefined
    return html`<tr><td><code>${status}</code><td>${meaning}${example === undefined ? nothing : code(example)}`
  })
  // Browsers without the script open the details if the id is inside of them.
  return html`<details><summary><b class="${method}">${method.toUpperCase()}</b><code>${path}</code><span>${summary}${security ? '' : ' · public'}</span></summary><div id="${operationId}">
<a class="facts" href="#${operationId}">#${operationId}</a>
${description ? html`<p>${description}</p>` : nothing}${inputs.length > 0 ? html`<h3>Parameters</h3><table>${inputs}</table>` : nothing}${bodies}<h3>Answers</h3><table>${answers}</table></div></details>`
}

const code = (value: unknown): Markup => html`<pre>${JSON.stringify(value, null, 2) ?? ''}</pre>`
