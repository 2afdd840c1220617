import { sql } from 'kysely'
import { expect, test } from 'vitest'
import { withLock } from '../../src/db/lock.ts'
import { enqueue } from '../../src/jobs/queue.ts'
import { startApp } from '../support/app.ts'
import { runHere } from '../support/processes/run-here.ts'
import { insertDocument } from '../support/search-suite.ts'
import { freePort } from '../support/servers/free-port.ts'

async function start() {
  const { app, ada, dataDir, databaseUrl, runJobs } = await startApp()
  const dms = (...args: string[]) => runHere(['search', ...args], { env: { DATABASE_URL: databaseUrl, DMS_DATA_DIR: dataDir } })
  return { app, ada, dms, runJobs }
}

test('query lists matches, best first, in every format; -o id prints only ids', async () => {
  const { app, ada, dms } = await start()
  const second = await insertDocument(app.db, ada.id, { title: 'Letter', content: 'about the invoice & more', labels: ['Tax'] })
  const first = await insertDocument(app.db, ada.id, { title: 'Invoice', content: 'of March', mimeType: 'application/pdf' })
  await app.search.refresh([first, second])

  expect(await dms('query', 'invoi', '-o', 'id')).toMatchObject({ code: 0, stdout: `${first}\n${second}\n`, stderr: '' })
  const rows = JSON.parse((await dms('query', 'the', 'invoice', '--json')).stdout)
  expect(rows).toEqual([
    expect.objectContaining({
      document_id: second,
      title: 'Letter',
      score: expect.any(Number),
      highlights: [{ field: 'content', snippet: 'about <mark>the</mark> <mark>invoice</mark> &amp; more' }],
    }),
  ])
  expect((await dms('query', 'invoice about', '-o', 'tsv', '--fields', 'title,highlights')).stdout).toBe(
    'Letter\tabout the invoice & more\n',
  )
  expect((await dms('query', 'invoice', '--mime', 'application/pdf', '-o', 'id')).stdout).toBe(`${first}\n`)
  expect((await dms('query', 'invoice', '--label', 'tax', '--owner', 'ada', '-o', 'id')).stdout).toBe(`${second}\n`)
  for (const flag of ['--label', '--owner'])
    expect(await dms('query', 'invoice', flag, 'none')).toMatchObject({ code: 6, stdout: '', stderr: expect.stringContaining('no ') })
  expect(await dms('query', '')).toMatchObject({ code: 2, stdout: '', stderr: expect.stringContaining('no search terms given') })
  expect((await dms('query', 'invocie', '--fuzzy', '--limit', '1', '-o', 'id')).stdout).toBe(`${first}\n`)
  expect((await dms('query', 'invocie', '-o', 'id')).stdout).toBe('')
  expect((await dms('query', 'invoice', '--facets', '-o', 'tsv')).stdout).toBe(
    'mime_types\tapplication/pdf\t1\nmime_types\ttext/plain\t1\nlabels\tTax\t1\n',
  )
  expect(JSON.parse((await dms('query', 'invoice', '--facets', '--json')).stdout)).toMatchObject({ total: 2, total_capped: false })
})

test('69 if Meilisearch is unreachable, with the cause; -v adds the stack', async () => {
  const { dataDir, databaseUrl } = await startApp()
  const env = {
    DATABASE_URL: databaseUrl,
    DMS_DATA_DIR: dataDir,
    DMS_SEARCH_ENGINE: 'meilisearch',
    DMS_MEILI_URL: `http://127.0.0.1:${await freePort()}`,
  }
  const short = await runHere(['search', 'query', 'invoice'], { env })
  expect(short).toMatchObject({
    code: 69,
    stdout: '',
    stderr: expect.stringMatching(/ECONNREFUSED.*\nerror: The search engine is out of reach\.\n$/),
  })
  expect(short.stderr).not.toMatch(/request failed|request id|"stack"/)
  const long = await runHere(['search', 'query', 'invoice', '-v'], { env })
  expect([long.code, long.stderr]).toEqual([69, expect.stringMatching(/"stack":".* at .*"msg":"request failed"/)])
})

test('query: --field adds conditions on fields, --sort an order', async () => {
  const { app, ada, dms } = await start()
  const letter = await insertDocument(app.db, ada.id, { title: 'Letter', content: 'about the invoice 4711-0815', labels: ['Tax'] })
  const invoice = await insertDocument(app.db, ada.id, { title: 'Invoice', content: 'of March: draft' })
  await app.search.refresh([letter, invoice])
  const ids = async (...args: string[]) => (await dms('query', ...args, '-o', 'id')).stdout
  expect(await ids('--field', 'title:match:letter')).toBe(`${letter}\n`)
  expect(await ids('--field', 'title:letter', '--field', 'content:contains:arch: dr', '--sort', 'title:asc')).toBe(
    `${invoice}\n${letter}\n`,
  )
  expect(await ids('--field', '+content:contains:711-0')).toBe(`${letter}\n`)
  expect(await ids('--field', '-title:exact:LETTER')).toBe(`${invoice}\n`)
  expect(await ids('invoice', '--field', '-labels:tax')).toBe(`${invoice}\n`)
  expect(await ids('invoice', '--sort', 'title:desc')).toBe(`${letter}\n${invoice}\n`)
  expect(await ids('invoice', '--sort', 'title:desc', '--limit', '1')).toBe(`${letter}\n`)
  expect((await dms('query', '--field', '+title:letter', '--facets', '-o', 'tsv')).stdout).toBe(
    'mime_types\ttext/plain\t1\nlabels\tTax\t1\n',
  )
  for (const bad of [
    ['--field', 'title'],
    ['--field', 'colour:red'],
    ['--field', 'title:'],
    ['x', '--sort', 'title:up'],
    ['x', '--sort', 'colour'],
  ])
    expect((await dms('query', ...bad)).code, String(bad)).toBe(2)
  expect((await dms('query', 'x', '--sort', 'title', '--fuzzy')).code).toBe(2)
  for (const text of ['invoice -tax', '"of March"', 'letter OR invoice', 'title:letter', 'invoice label:tax'])
    expect((await dms('query', text, '--sort', 'title')).code, text).toBe(2)
})

test('query: notes that there are more matches than the default limit, also to a script; not beside --limit', async () => {
  const { app, ada, dms } = await start()
  const ids: string[] = []
  for (let i = 0; i < 51; i++) ids.push(await insertDocument(app.db, ada.id, { content: 'telecom' }))
  await app.search.refresh(ids)
  const cut = await dms('query', 'telecom', '-o', 'id')
  expect(cut).toMatchObject({ code: 0, stderr: 'showing 50 of 51 (--limit)\n' })
  expect(cut.stdout.trim().split('\n')).toHaveLength(50)
  expect((await dms('query', 'telecom', '-o', 'id', '--limit', '50')).stderr).toBe('')
})

test('query: 0 without matches, 2 for a bad filter or limit', async () => {
  const { dms } = await start()
  expect(await dms('query', 'nothing', '--json')).toMatchObject({ code: 0, stdout: '[]\n' })
  for (const flags of [[], ['--facets']]) expect((await dms('query', 'nothing', '--exit-empty', ...flags)).code).toBe(6)
  expect((await dms('query', 'x', '--limit', '0')).code).toBe(2)
  expect((await dms('query', 'x', '--limit', '1001')).code).toBe(2)
  expect((await dms('query', 'x', '--from', 'someday')).code).toBe(2)
  expect((await dms('query', 'x', '--min-confidence', 'high')).code).toBe(2)
  expect((await dms('query')).code).toBe(2)
})

test('reindex writes every document; --if-needed only if entries are missing', async () => {
  const { app, ada, dms } = await start()
  for (let count = 0; count < 3; count++) await insertDocument(app.db, ada.id, { content: 'word' })
  const done = await dms('reindex', '--if-needed', '--json', '--progress', 'json')
  expect(JSON.parse(done.stdout)).toMatchObject({ type: 'summary', engine: 'postgres', documents: 3, skipped: false, exit_code: 0 })
  expect(JSON.parse(done.stderr.trim().split('\n').at(-1)!)).toMatchObject({ type: 'progress', phase: 'search reindex', done: 3, total: 3 })
  expect(await app.search.count()).toBe(3)
  expect(JSON.parse((await dms('reindex', '--if-needed', '--json')).stdout)).toMatchObject({ documents: 3, skipped: true })
  expect((await dms('reindex', '--if-needed', '-o', 'id')).stdout).toBe('')
})

test('reindex: 0 with a document of 2,100 long words that each occur four times', async () => {
  const { app, ada, dms } = await start()
  const words = Array.from({ length: 2100 }, (_, nth) => `w${nth}`.padEnd(255, 'x'))
  const id = await insertDocument(app.db, ada.id, { content: `${words.join(' ')} `.repeat(4) })
  expect(await dms('reindex', '--json')).toMatchObject({ code: 0, stdout: expect.stringContaining('"documents": 1') })
  expect((await dms('query', words.at(-1)!, '-o', 'id')).stdout).toBe(`${id}\n`)
})

test('reindex: 3 if a document cannot be indexed, which is named; status and verify report it', async () => {
  const { app, ada, dms } = await start()
  const [one, bad, other] = [
    await insertDocument(app.db, ada.id),
    await insertDocument(app.db, ada.id),
    await insertDocument(app.db, ada.id),
  ]
  await sql`alter table search_segment_template add check (document_id <> ${sql.lit(bad)})`.execute(app.db)
  const { code, stdout, stderr } = await dms('reindex', '--json')
  expect([code, stderr]).toEqual([3, expect.stringContaining(bad)])
  expect(JSON.parse(stdout)).toMatchObject({ documents: 2, failed: 1, swapped: true, exit_code: 3 })
  expect((await dms('query', 'untitled', '-o', 'id')).stdout.trim().split('\n').sort()).toEqual([one, other].sort())
  expect((await dms('status', '--check')).code).toBe(8)
  expect(await dms('verify')).toMatchObject({ code: 3, stdout: expect.stringContaining(bad) })
})

test('reindex: 75 during another reindex, 2 with a remote target', async () => {
  const { app, dms } = await start()
  const { code, stderr } = await withLock(app.database, 'search.reindex', 0, () => dms('reindex'))
  expect(code).toBe(75)
  expect(stderr).toMatch(/search\.reindex.*already running/)
  expect((await dms('reindex', '--url', 'https://dms.example.org')).code).toBe(2)
  expect((await dms('reindex', '--lock-timeout', 'soon')).code).toBe(2)
})

test('reindex: --ids, --since, --in-place, --dry-run, --no-wait; 2 for conflicting options', async () => {
  const { app, ada, dms, runJobs } = await start()
  const [one, two] = [await insertDocument(app.db, ada.id), await insertDocument(app.db, ada.id)]
  const summary = async (...args: string[]) => JSON.parse((await dms('reindex', '--json', ...args)).stdout)
  expect(await summary('-n')).toMatchObject({ documents: 2, swapped: false, dry_run: true })
  expect((await dms('reindex', '-n')).stdout).toMatch(/^dry_run\ttrue$/m)
  expect(await summary('--ids', one!)).toMatchObject({ documents: 1, swapped: false })
  expect((await dms('status', '--check')).code).toBe(8)
  expect(await summary('--since', '2026-01-01', '--batch-size', '1')).toMatchObject({ documents: 2, swapped: false })
  expect((await dms('status', '--check')).code).toBe(0)
  expect(await summary('--in-place')).toMatchObject({ documents: 2, swapped: false })
  expect(await summary()).toMatchObject({ documents: 2, swapped: true, index: expect.stringMatching(/^generation \d+$/) })
  const queued = await dms('reindex', '--no-wait', '-o', 'id')
  expect(await app.db.selectFrom('jobs').select(['id', 'payload']).where('kind', '=', 'reindex').execute()).toEqual([
    { id: queued.stdout.trim(), payload: { anew: true } },
  ])
  const generation = async () => (await app.search.status()).index
  const before = await generation()
  await runJobs(['maintenance'])
  expect(await generation()).not.toBe(before)
  expect((await dms('reindex', '--keep-old')).code, 'in PostgreSQL no old one is kept').toBe(2)
  expect((await dms('status', '--check')).code).toBe(0)
  for (const wrong of [
    ['--no-wait', '--in-place'],
    ['--keep-old', '--in-place'],
    ['--ids', 'x'],
    ['--since', 'soon'],
    ['--ids', two!, '--if-needed'],
    ['--batch-size', '0'],
  ])
    expect((await dms('reindex', ...wrong)).code, wrong.join(' ')).toBe(2)
})

test('verify: 3 for entries with missing or stale words; documents with a waiting index job are skipped', async () => {
  const { app, ada, dms } = await start()
  const right = await insertDocument(app.db, ada.id, { title: 'Right', content: 'landlord and tenant', labels: ['Tax'] })
  const stale = await insertDocument(app.db, ada.id, { title: 'Stale', content: 'harbour dues and much more. '.repeat(40) })
  await app.search.refresh([right!, stale!])
  expect(await dms('verify')).toMatchObject({ code: 0 })
  await app.db.updateTable('documents').set({ content: 'lighthouse' }).where('id', '=', stale!).execute()
  const { code, stdout } = await dms('verify', '--sample', '5', '--json')
  expect([code, JSON.parse(stdout)]).toMatchObject([
    3,
    {
      type: 'summary',
      engine: 'postgres',
      index: 'generation 1',
      documents: 2,
      findings: 2,
      failed: 1,
      exit_code: 3,
      items: [
        { document_id: stale, problem: 'stale', left: ['and', 'dues', 'harbour', 'more', 'much'], lacks: ['lighthouse'] },
        { document_id: stale, problem: 'unfound', field: 'content', query: '"lighthouse"' },
      ],
    },
  ])
  await app.db.transaction().execute((trx) => enqueue(trx, 'index', { document_id: stale! }))
  expect((await dms('verify')).code).toBe(0)
  expect((await dms('verify', '--sample', 'all')).code).toBe(2)
})

test('similar and suggest; query warnings go to standard error', async () => {
  const { app, ada, dms } = await start()
  const [one, other] = [
    await insertDocument(app.db, ada.id, { title: 'One', content: 'landlord and tenant' }),
    await insertDocument(app.db, ada.id, { title: 'Other', content: 'landlord and tenant' }),
  ]
  await app.search.refresh([one!, other!])
  expect(await dms('similar', one!, '-o', 'id')).toMatchObject({ code: 0, stdout: `${other}\n` })
  expect((await dms('similar', ada.id)).code).toBe(6)
  expect((await dms('similar', one!, '--limit', '51')).code).toBe(2)
  expect(await dms('suggest', 'tenant', 'land', '-o', 'id')).toMatchObject({ code: 0, stdout: 'tenant landlord\n' })
  expect((await dms('suggest', 'land', '--limit', '0')).code).toBe(2)
  const { code, stderr, stdout } = await dms('query', 'landlord type:nonsense', '-o', 'id')
  expect([code, stdout.split('\n').length]).toEqual([0, 3])
  expect(stderr).toContain('type:nonsense')
  expect((await dms('query', 'landlord type:nonsense', '--facets')).stderr).toContain('type:nonsense')
})
