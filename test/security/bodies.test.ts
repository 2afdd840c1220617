/** Invalid and nearly invalid JSON, and requests generated from the description of the API. */
import { randomUUID } from 'node:crypto'
import fc from 'fast-check'
import { expect, test, vi } from 'vitest'
import { multipart } from '../../src/client/http/multipart.ts'
import { upload } from '../support/app.ts'
import { conforming } from '../support/conformance.ts'
import { addressOf, type Description, insides, type Operation, operationsOf, valueFor } from '../support/operations.ts'
import { startServer, tokenFor } from '../support/servers/server.ts'

vi.setConfig({ testTimeout: 180_000 })

type Fate = 'kept' | 'refused' | 'either'

const nested = (open: string, close: string, depth: number, core = '1') => open.repeat(depth) + core + close.repeat(depth)
const bytes = (...parts: (string | number[])[]) =>
  Buffer.concat(parts.map((part) => (typeof part === 'string' ? Buffer.from(part) : Buffer.from(part))))
const many = (count: number) => Array.from({ length: count }, (_, index) => `"k${index}":${index}`).join()

/** JSON values for `metadata.v` of a document. Stored values must be returned as JSON.parse reads them. */
const values: readonly [Fate, string | Buffer][] = [
  ...['0', '-0', '1.5', '1e2', '1E-2', '-1.5e+3', '0e0', '1e-400', '2.2250738585072014e-308', '9007199254740991'].map(
    (text): [Fate, string] => ['kept', text],
  ),
  ...[
    '01',
    '-01',
    '+1',
    '1.',
    '.5',
    '1e',
    '1e+',
    '-',
    '0x1',
    '1_000',
    'NaN',
    'Infinity',
    '-Infinity',
    '1 000',
    '１',
    '0.1.2',
    '1eE2',
    '--1',
  ].map((text): [Fate, string] => ['refused', text]),
  ...['1e400', '-1e400', `1${'0'.repeat(400)}`, '9007199254740993', '123456789012345678'].map((text): [Fate, string] => ['refused', text]),
  ...['true', 'false', '""', '"\\u00e9"', '"\\ud83d\\ude00"', '"\u{1f600}"', '"\\/"', '"\u2028\u2029"', '"\\u0001"', '"\u007f"'].map(
    (text): [Fate, string] => ['kept', text],
  ),
  ...[
    'True',
    'nul',
    'undefined',
    "'a'",
    '"a',
    '"\\x41"',
    '"\\u12"',
    '"\\u{41}"',
    '"a\nb"',
    '"a\tb"',
    '"\\"',
    '"a" "b"',
    'a',
    '`a`',
    '"\\a"',
  ].map((text): [Fate, string] => ['refused', text]),
  // PostgreSQL cannot store any of these.
  ...['"\\u0000"', '"a\\u0000b"', '{"a\\u0000":1}', '"\\ud800"', '"\\udc00"', '"\\udc00\\ud800"', '"\\ud800a"', '{"\\udfff":1}'].map(
    (text): [Fate, string] => ['refused', text],
  ),
  ...['[]', '[1]', '[[]]', '[null,null]', '{}', '{"":1}', '{"a":1,"a":2}', '{"a":{"a":{}}}', ' [ 1 , 2 ] ', '\t\n\r []'].map(
    (text): [Fate, string] => ['kept', text],
  ),
  ...['[', ']', '[1', '[1,', '[,1]', '[1,]', '[1 2]', '[1;2]', '[1}', '{', '{"a"', '{"a":', '{"a":1', '{"a":1,', '{"a":1,}', '{,}'].map(
    (text): [Fate, string] => ['refused', text],
  ),
  ...[
    '{a:1}',
    "{'a':1}",
    '{1:1}',
    '{"a",1}',
    '{"a":1 "b":2}',
    '{"a"::1}',
    '{null:1}',
    '[1]/**/',
    '[1]//',
    '[1]#',
    '<a/>',
    '\f[]',
    '\u00a0[]',
  ].map((text): [Fate, string] => ['refused', text]),
  ['refused', '[1]\u0000'],
  ['kept', '{"constructor":{"prototype":{"polluted":true}},"toString":1,"hasOwnProperty":2,"then":3}'],
  ['refused', '{"__proto__":{"polluted":true}}'],
  ['refused', '[{"__proto__":1}]'],
  ['kept', nested('[', ']', 20)],
  ['refused', nested('[', ']', 500)],
  ['refused', nested('{"a":', '}', 500)],
  ['refused', nested('[', ']', 100_000)],
  ['refused', '['.repeat(100_000)],
  ['refused', '{"a":'.repeat(100_000)],
  ['refused', `{${many(60_000)}}`],
  ['refused', bytes('"', [0xff], '"')],
  ['refused', bytes('"', [0xc0, 0xaf], '"')],
  ['refused', bytes('"', [0xe0, 0x80, 0x80], '"')],
  ['refused', bytes('"', [0xed, 0xa0, 0x80], '"')],
  ['refused', bytes('"', [0xf4, 0x90, 0x80, 0x80], '"')],
  ['refused', bytes('"', [0xe2, 0x82], '"')],
  ['refused', bytes('"', [0x80], '"')],
  ['refused', bytes('"', [0xe9], '"')],
  ['refused', bytes([0xef, 0xbb, 0xbf], '1')],
]

/** Whole bodies. */
const bodies: readonly [Fate, string | Buffer][] = [
  ['kept', '\ufeff{"metadata":{"v":1}}'],
  ['refused', '\ufeff\ufeff{"metadata":{"v":1}}'],
  ['either', '\ufeff'],
  ['either', ''],
  ['either', ' \r\n\t'],
  ['refused', Buffer.from('{"metadata":{"v":1}}', 'utf16le')],
  ['refused', Buffer.from('\ufeff{"metadata":{"v":1}}', 'utf16le')],
  ['refused', Buffer.from('{"metadata":{"v":1}}', 'utf16le').swap16()],
  ...['null', 'true', '1', '"{}"', '[]', '[{"title":"x"}]'].map((text): [Fate, string] => ['refused', text]),
  ...['{"title":"x"}{"title":"y"}', '{"title":"x"}x', '{"title":"x"}\0', '\0', '\x1e{"title":"x"}', ")]}',\n{}"].map(
    (text): [Fate, string] => ['refused', text],
  ),
  ['refused', '{"title":"x","title":7}'],
  ['kept', '{"title":7,"title":"the last counts"}'],
  // Unknown fields are ignored, whatever they hold.
  ['kept', '{"__proto__":{"title":"x"}}'],
  ['kept', '{"unknown":"\\ud800","a\\u0000":["\\u0000",1e400,{"__proto__":12345678901234567890}],"title":"x"}'],
  ['refused', '{"title":"\\ud800"}'],
]

test('malformed JSON, and JSON that cannot be stored, is 400 VALIDATION_ERROR; all other JSON is returned unchanged', async () => {
  const { fetch, asAda } = await startServer()
  const { id } = await upload(asAda, 'a.txt', 'hello')
  const put = async (body: string | Buffer) => {
    const response = await fetch(`/api/documents/${id}`, {
      method: 'PUT',
      body: body as BodyInit,
      headers: { 'content-type': 'application/json' },
    })
    const text = await response.text()
    return { status: response.status, text }
  }
  const wrapped = values.map(([fate, value]): [Fate, string | Buffer] => [fate, bytes('{"metadata":{"v":', [...Buffer.from(value)], '}}')])
  for (const [fate, body] of [...wrapped, ...bodies]) {
    const title = String(body).slice(0, 60)
    // Metadata are merged: removes the earlier values first.
    if (fate === 'kept') await put('{"metadata":{"v":null}}')
    const { status, text } = await put(body)
    const allowed = { kept: [200], refused: [400], either: [200, 400] }[fate]
    expect
      .soft([title, allowed.includes(status), status, status === 400 && !text.includes('"code":"VALIDATION_ERROR"')])
      .toEqual([title, true, status, false])
    expect.soft([title, insides.exec(text)?.[0]]).toEqual([title, undefined])
    const sent = fate === 'kept' ? JSON.parse(String(body).replace(/^\ufeff/, '')).metadata : undefined
    if (sent) expect.soft([title, JSON.parse(text).metadata]).toEqual([title, JSON.parse(JSON.stringify(sent))])
  }
  expect(({} as Record<string, unknown>).polluted).toBeUndefined()
  expect((await fetch('/readyz')).status).toBeLessThan(300)
})

test('more than 500 requests generated from the description of every route: no 5xx, and no answer outside of the description', async () => {
  const dms = await startServer({ 'limits.comments_per_minute': 0, 'storage.fsync': false })
  dms.app.log.level = 'silent'
  const document = await upload(dms.asAda, 'a.txt', 'some words of a text')
  const label = await dms.asAda.labels.create({ name: 'one', color: '#112233' })
  const link = await dms.asAda.sharedLinks.create({ document_id: document.id })
  const comment = await dms.asAda.comments.create(document.id, { content: 'so it is' })
  const known = [document.id, label.id, link.id, link.token, comment.id, dms.bob.id, randomUUID(), 'a\0b', '..', '']
  const operations = operationsOf(await dms.asStranger.call<Description>('GET', '/api/openapi.json'))
  const askers = [null, dms.ada, dms.admin]

  const request = (operation: Operation) =>
    fc.record({
      operation: fc.constant(operation),
      params: fc.record(Object.fromEntries(operation.inPath.map((name) => [name, fc.constantFrom(...known)]))),
      query: fc.record(Object.fromEntries(Object.entries(operation.query).map(([name, schema]) => [name, valueFor(schema)])), {
        requiredKeys: [],
      }),
      body: valueFor(operation.body ?? operation.form ?? {}),
      asker: fc.constantFrom(...askers),
    })
  type Made = ReturnType<typeof request> extends fc.Arbitrary<infer T> ? T : never
  const send = conforming(dms.app, async (made) => fetch(made))
  const seen = new Map<string, number>()
  const check = async ({ operation, params, query, body, asker }: Made): Promise<void> => {
    const { method, form } = operation
    const texts = Object.fromEntries(Object.entries(query).map(([name, value]) => [name, String(value).toWellFormed()]))
    const headers = new Headers(asker ? { authorization: `Bearer ${await tokenFor(dms.app, asker)}` } : {})
    const init: RequestInit & { duplex?: 'half' } = { method, headers, redirect: 'manual' }
    if (form) {
      const { files: _, file: __, ...fields } = Object(body) as Record<string, unknown>
      const given = Object.fromEntries(Object.entries(fields).map(([name, value]) => [name, String(value).toWellFormed()]))
      const field = form.properties?.files ? 'files' : 'file'
      const made = multipart(given, field, [{ filename: 'a.txt', size: 1, open: () => [Buffer.from('a')] }])
      headers.set('content-type', made.contentType)
      Object.assign(init, { body: made.body, duplex: 'half' })
    } else if (method !== 'GET') {
      headers.set('content-type', 'application/json')
      init.body = JSON.stringify(body) ?? ''
    }
    const response = await send(new Request(new URL(addressOf(operation, params, texts), dms.url), init))
    const text = await response.text()
    if (response.status >= 500 && response.status !== 503) throw new Error(`${response.status}: ${text}`)
    if (response.status >= 400 && insides.test(text)) throw new Error(`tells of its insides: ${text}`)
    seen.set(operation.name, Math.min(seen.get(operation.name) ?? 999, response.status))
  }
  const numRuns = Math.ceil(500 / operations.length)
  for (const operation of operations) await fc.assert(fc.asyncProperty(request(operation), check), { numRuns, seed: 20 })
  expect(seen.size).toBe(operations.length)
  expect([...seen.values()].filter((status) => status < 300).length).toBeGreaterThan(20)
  expect((await dms.fetch('/api/documents')).status).toBe(200)
})
