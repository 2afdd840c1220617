import { Option } from 'commander'
import { collectValues } from '../src/cli/arguments/flag-values.ts'
import { startJsonArray } from '../src/cli/output/json-array.ts'
import { waitForReader } from '../src/cli/output/listing.ts'
import { manual } from '../src/cli/output/manual.ts'
import { rejectOutputFlags } from '../src/cli/output/output.ts'
import { type ApiFlags, parseApiCall } from '../src/cli/remote/api-call.ts'
import type { Cli } from '../src/cli/runtime/context.ts'
import { usage } from '../src/cli/runtime/exit.ts'
import type { Client } from '../src/client/client.ts'
import { readError } from '../src/client/http/connection.ts'

export const api = (cli: Cli) =>
  manual('api <method> <path>', {
    summary: 'Send a request to the API and print the answer',
    examples: [
      ["api GET /api/settings | jq -r '.theme'", ''],
      ['api GET /api/documents -f status=failed --paginate', 'all pages as one array'],
      ['api PUT /api/documents/0192f0c1-… -f title=Contract -F \'labels=["legal"]\'', ''],
      ['api POST /api/users/import --input users.json', 'body from a file; - is standard input'],
    ],
    notes: [
      'Without a remote server the request runs in this process, as the operator or the user of --as. The server lists all routes at /api/docs.',
    ],
    exits: '0 answered · 2 400 or 422 · 4 401 · 5 403 · 6 404 or 410 · 7 409 · 69 server unreachable',
  })
    .option('-f, --field <name=value>', 'add a string: to the query of GET, HEAD and DELETE, else to a JSON body', collectValues)
    .option('-F, --typed-field <name=json>', 'add a number, true, false, null, list or object', collectValues)
    .option('--input <file>', 'send this file as the body; - reads standard input')
    .option('-H, --http-header <name: value>', 'add a request header', collectValues)
    .addOption(new Option('--paginate', 'fetch all pages of a list and print one array').conflicts('include'))
    .option('-i, --include', 'print status and headers before the body')
    .action(async (method: string, path: string, { paginate, include, ...flags }: ApiFlags & { paginate?: boolean; include?: boolean }) => {
      rejectOutputFlags(cli.options, 'the answer is printed as it is', ['json'])
      const call = await parseApiCall(method, path, flags)
      if (paginate && call.method !== 'GET') throw usage(`--paginate needs GET, not ${call.method}`)
      const client = await cli.client()
      if (paginate) return printPages(cli, client, call.path)
      const response = call.body
        ? await client.raw(call.method, call.path, call.body, call.headers)
        : await client.send(call.method, call.path, call.json, call.headers)
      if (include) cli.write(`${formatHead(response)}\n`)
      if (!response.ok) throw await readError(response)
      await printBody(cli, response)
    })

/** Prints the items of all pages as one array, page by page. The only array in an answer is the list. */
async function printPages({ write }: Cli, client: Client, path: string): Promise<void> {
  const url = new URL(path, 'http://dms')
  const array = startJsonArray(write)
  if (!url.searchParams.has('per_page')) url.searchParams.set('per_page', '100')
  for (let page = 2; ; page++) {
    const answer = await client.call<Record<string, unknown>>('GET', `${url.pathname}${url.search}`)
    const { pagination, ...rest } = answer
    const list = Object.values(rest).find(Array.isArray)
    if (typeof pagination !== 'object' || pagination === null || list === undefined)
      throw usage(`--paginate: ${path} does not answer with a paginated list`)
    for (const item of list) array.add(item)
    await waitForReader()
    const { has_next, next_cursor } = pagination as { has_next?: boolean; next_cursor?: string | null }
    if (next_cursor) url.searchParams.set('cursor', next_cursor)
    // Search results have page numbers instead of cursors.
    else if (has_next) url.searchParams.set('page', String(page))
    else break
  }
  array.end()
  write('\n')
}

const formatHead = ({ status, statusText, headers }: Response): string =>
  [`HTTP ${status} ${statusText}`.trimEnd(), ...[...headers].map(([name, value]) => `${name}: ${value}`), ''].join('\n')

/** Prints the body: JSON is indented on a terminal, other text and pipes get the unchanged bytes. */
async function printBody(cli: Cli, response: Response): Promise<void> {
  const type = response.headers.get('content-type') ?? ''
  const isJson = /^application\/(\S+\+)?json/.test(type)
  if (cli.options.isTerminal && !isJson && !type.startsWith('text/') && response.body)
    throw usage(`the answer is ${type || 'not text'} and would garble the terminal`, 'redirect the output to a file')
  if (isJson && cli.options.isTerminal) {
    const text = await response.text()
    return cli.write(text === '' ? '' : `${JSON.stringify(JSON.parse(text), null, 2)}\n`)
  }
  const { pipeline } = await import('node:stream/promises')
  if (response.body) await pipeline(response.body, process.stdout, { end: false })
  if (isJson) cli.write('\n')
}
