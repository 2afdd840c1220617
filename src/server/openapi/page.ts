/** Renders the OpenAPI document as a web page without scripts and external resources. */
import { createHash } from 'node:crypto'
import type { describe } from './openapi.ts'

type Description = ReturnType<typeof describe>

const style = `
:root{color-scheme:light dark;--line:#8884;--quiet:#777;--get:#1a7f5a;--post:#2563a8;--put:#9a6700;--delete:#b42318}
body{font:16px/1.5 system-ui,sans-serif;max-width:60rem;margin:0 auto;padding:2rem 1rem 6rem}
h1{margin:0}h2{margin:2.5rem 0 .5rem;text-transform:capitalize}
p.lead{color:var(--quiet);max-width:45rem}
details{border:1px solid var(--line);border-radius:.5rem;margin:.4rem 0;overflow:hidden}
summary{display:flex;gap:.8rem;align-items:baseline;padding:.55rem .8rem;cursor:pointer;flex-wrap:wrap}
summary code{font-size:.95rem;overflow-wrap:anywhere}summary span{color:var(--quiet);margin-left:auto;font-size:.9rem}
b{font:600 .75rem/1 ui-monospace,monospace;min-width:3.6rem}
.get{color:var(--get)}.post{color:var(--post)}.put{color:var(--put)}.delete{color:var(--delete)}
section{padding:.2rem 1rem 1rem;border-top:1px solid var(--line)}
h3{font-size:.9rem;margin:1rem 0 .3rem}table{border-collapse:collapse;width:100%;font-size:.9rem}td{padding:.25rem .8rem .25rem 0;vertical-align:top}
pre{background:#8881;border-radius:.4rem;padding:.7rem;overflow:auto;font-size:.82rem;line-height:1.4;margin:.3rem 0}`

/** Content-Security-Policy that allows the style sheet of the page only. */
export const docsPolicy = `default-src 'none'; style-src 'sha256-${createHash('sha256').update(style).digest('base64')}'; frame-ancestors 'none'`

/** Returns the page as HTML. */
export function docsPage(description: Description): string {
  const operations = Object.entries(description.paths).flatMap(([path, methods]) =>
    Object.entries(methods).map(([method, operation]) => ({ path, method, ...operation })),
  )
  const groups = Map.groupBy(operations, ({ tags }) => tags[0] ?? '')
  const sections = [...groups].map(([tag, list]) => `<h2>${escaped(tag)}</h2>${list.map(entry).join('')}`).join('')
  return `<!doctype html><html lang="en"><meta charset="utf-8"><meta name="viewport" content="width=device-width"><title>dms API</title><style>${style}</style>
<h1>dms API</h1><p class="lead">${escaped(description.info.description)} For programs: <a href="openapi.json">openapi.json</a>.</p>${sections}</html>`
}

type Entry = { path: string; method: string } & Description['paths'][string][string]

function entry({ path, method, summary, description, security, parameters, requestBody, responses }: Entry): string {
  const inputs = (
    parameters as { name: string; in: string; required: boolean; schema: { type?: string; enum?: unknown[]; default?: unknown } }[]
  ).map(
    ({ name, in: location, required, schema }) =>
      `<tr><td><code>${escaped(name)}</code><td>${escaped(location)}${required ? ', required' : ''}<td>${escaped(schema.enum?.join(' | ') ?? schema.type ?? '')}${schema.default === undefined ? '' : `, default ${escaped(String(schema.default))}`}`,
  )
  const bodies = Object.entries(requestBody?.content ?? {}).map(
    ([type, { example, schema }]) => `<h3>Body: ${escaped(type)}</h3>${code(example ?? schema.properties)}`,
  )
  const answers = Object.entries(responses).map(([status, { description: meaning, content }]) => {
    const example = Number(status) < 400 ? content?.['application/json']?.example : undefined
    return `<tr><td><code>${status}</code><td>${escaped(meaning)}${example === undefined ? '' : code(example)}`
  })
  return `<details><summary><b class="${method}">${method.toUpperCase()}</b><code>${escaped(path)}</code><span>${escaped(summary)}${security ? '' : ' · public'}</span></summary><section>
${description ? `<p>${escaped(description)}</p>` : ''}${inputs.length ? `<h3>Parameters</h3><table>${inputs.join('')}</table>` : ''}${bodies.join('')}<h3>Answers</h3><table>${answers.join('')}</table></section></details>`
}

const code = (value: unknown): string => `<pre>${escaped(JSON.stringify(value, null, 2) ?? '')}</pre>`

const escaped = (text: string): string =>
  text.replaceAll('&', '&amp;').replaceAll('<', '&lt;').replaceAll('>', '&gt;').replaceAll('"', '&quot;')
