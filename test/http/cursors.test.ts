/** A walk by cursor is complete: unchanged entries are returned once, whatever is inserted, deleted and changed. */
import { randomUUID } from 'node:crypto'
import fc from 'fast-check'
import { sql } from 'kysely'
import { expect, test, vi } from 'vitest'
import { openAuditLog } from '../../src/audit/audit.ts'
import { sortable } from '../../src/documents/list.ts'
import { notify } from '../../src/notifications/notifications.ts'
import { upload } from '../support/app.ts'
import { copyUnindexed } from '../support/places.ts'
import { fieldsOf, nameOf, startWorld, type World } from '../support/route-table.ts'

vi.setConfig({ testTimeout: 120_000 })

/** A list, and how its entries are inserted, deleted and changed. */
interface List {
  /** the path, with a query that shortens the list */
  path(): string
  /** where the answer has the entries */
  field: string
  /** field that identifies an entry; default: id */
  key?: string
  /** parameter for the length of a page; default: per_page */
  size?: string
  as: 'ada' | 'admin'
  /** Inserts an entry. Returns its id. */
  add(at: number): Promise<string>
  remove(id: string): Promise<unknown>
  /** Changes a field that the list is not sorted by. */
  change(id: string): Promise<unknown>
}

const routes = [
  'GET /api/documents',
  'GET /api/users',
  'GET /api/notifications',
  'GET /api/shared-links',
  'GET /api/shared-links/document/:document_id',
  'GET /api/shared/links',
  'GET /api/shared/links/document/:document_id',
  'GET /api/ocr/queue',
  'GET /api/labels',
  'GET /api/holds',
  'GET /api/retention/report',
  'GET /api/trash',
  'GET /api/sources',
  'GET /api/tokens',
  'GET /api/comments/documents/:document_id/comments',
  'GET /api/comments/documents/:document_id/comments/:comment_id/replies',
  'GET /api/audit',
]

/** Returns the first two words of a name below. */
const routeOf = (name: string): string => name.split(' ').slice(0, 2).join(' ')

/** Few times for many rows, so that ids break ties. */
const moment = (at: number) => new Date(Date.UTC(2026, 0, 1 + (at % 3)))

/** By route, with what follows in the query. */
async function listsOf(world: World): Promise<Record<string, List>> {
  const { db } = world.app
  const documentId = await world.document(world.ada)
  const { id: holdId } = await world.asAdmin.holds.create({ name: 'of the report' })
  const remove =
    (
      table: 'documents' | 'users' | 'notifications' | 'shared_links' | 'jobs' | 'labels' | 'holds' | 'sources' | 'api_tokens' | 'comments',
    ) =>
    (id: string) =>
      db.deleteFrom(table).where('id', '=', id).execute()
  const document = async (at: number): Promise<string> => {
    // A list needs rows, not uploads.
    const id = await copyUnindexed(world.app, documentId)
    // Longer than the prefix of titles that has an index, or shorter.
    const title = `title ${'long '.repeat(at % 2 ? 25 : 0)}${at % 4}`
    await sql`update documents set filename = ${`${at % 3}.txt`}, title = ${title},
    created_at = ${moment(at)}, updated_at = ${moment(at + 1)}, size = ${at % 2},
    ocr_confidence = ${at % 3 === 0 ? null : (at % 4) / 10}, status = ${at % 2 ? 'completed' : 'failed'} where id = ${id}`.execute(db)
    return id
  }

  return {
    ...Object.fromEntries(
      sortable.flatMap((sort) =>
        (['asc', 'desc'] as const).map((order): [string, List] => [
          `GET /api/documents ${sort} ${order}`,
          {
            path: () => `/api/documents?sort=${sort}&order=${order}&fields=id`,
            field: 'data',
            as: 'ada',
            add: document,
            remove: remove('documents'),
            change: (id) =>
              db.updateTable('documents').set({ metadata: '{"changed":true}', language: 'deu' }).where('id', '=', id).execute(),
          },
        ]),
      ),
    ),
    'GET /api/documents without saying more': {
      path: () => '/api/documents?',
      field: 'data',
      as: 'ada',
      add: document,
      remove: remove('documents'),
      change: (id) => world.asAda.documents.update(id, { title: 'changed' }),
    },
    'GET /api/trash': {
      path: () => '/api/trash?',
      field: 'data',
      as: 'ada',
      add: async (at) => {
        const id = await document(at)
        await db
          .updateTable('documents')
          .set({ deleted_at: moment(at), deleted_by: world.ada.id })
          .where('id', '=', id)
          .execute()
        return id
      },
      remove: remove('documents'),
      change: (id) => db.updateTable('documents').set({ metadata: '{"changed":true}' }).where('id', '=', id).execute(),
    },
    'GET /api/users': {
      path: () => '/api/users?q=walked',
      field: 'data',
      as: 'admin',
      add: async (at) => {
        const username = `walked-${randomUUID()}`
        const values = { username, username_key: username, email: `${username}@x.org`, email_key: `${username}@x.org` }
        return (
          await db
            .insertInto('users')
            .values({ ...values, created_at: moment(at) })
            .returning('id')
            .executeTakeFirstOrThrow()
        ).id
      },
      remove: remove('users'),
      change: (id) => db.updateTable('users').set({ disabled: true, display_name: 'changed' }).where('id', '=', id).execute(),
    },
    'GET /api/notifications': {
      path: () => '/api/notifications?',
      field: 'notifications',
      as: 'ada',
      add: async (at) => {
        const title = randomUUID()
        await db.transaction().execute((trx) => notify(world.app, trx, world.ada.id, 'ocr_failed', { title, message: 'm', data: {} }))
        const { rows } = await sql<{ id: string }>`
        update notifications set created_at = ${moment(at)} where title = ${title} returning id`.execute(db)
        return rows[0]?.id ?? ''
      },
      remove: remove('notifications'),
      change: (id) => world.asAda.notifications.read(id),
    },
    ...Object.fromEntries(
      ['/api/shared-links', '/api/shared/links'].flatMap((path) =>
        ['', '/document/:document_id'].map((more): [string, List] => [
          `GET ${path}${more}`,
          {
            path: () => `${path}${more.replace(':document_id', documentId)}?`,
            field: 'shared_links',
            as: 'ada',
            add: async (at) => {
              const values = { document_id: documentId, created_by: world.ada.id, token: randomUUID(), created_at: moment(at) }
              return (await db.insertInto('shared_links').values(values).returning('id').executeTakeFirstOrThrow()).id
            },
            remove: remove('shared_links'),
            change: (id) => db.updateTable('shared_links').set({ view_count: 7, revoked_at: new Date() }).where('id', '=', id).execute(),
          },
        ]),
      ),
    ),
    ...Object.fromEntries(
      ['next', 'created_at'].map((sort): [string, List] => [
        `GET /api/ocr/queue ${sort}`,
        {
          path: () => `/api/ocr/queue?sort=${sort}`,
          field: 'data',
          as: 'ada',
          add: async (at) => {
            const isOver = at % 3 > 0
            const { rows } = await sql<{ id: string }>`
            insert into jobs (kind, queue, status, priority, payload, document_id, max_attempts, created_at, run_at, finished_at)
            values ('ocr', 'ocr', ${isOver ? 'failed' : 'completed'}, ${at % 2}, '{"language":"eng"}', ${documentId}, 3, ${moment(at)},
              ${moment(at)}, ${isOver ? moment(at) : null}) returning id`.execute(db)
            return rows[0]?.id ?? ''
          },
          remove: remove('jobs'),
          change: (id) => db.updateTable('jobs').set({ attempts: 2, worker: 'changed' }).where('id', '=', id).execute(),
        },
      ]),
    ),
    'GET /api/labels': {
      path: () => '/api/labels?',
      field: 'labels',
      as: 'ada',
      add: async (at) => {
        const name = `${at % 3} ${randomUUID()}`
        const values = { name, name_key: name, color: '#112233' }
        return (await db.insertInto('labels').values(values).returning('id').executeTakeFirstOrThrow()).id
      },
      remove: remove('labels'),
      change: (id) => db.updateTable('labels').set({ description: 'changed' }).where('id', '=', id).execute(),
    },
    'GET /api/holds': {
      path: () => '/api/holds?',
      field: 'holds',
      as: 'admin',
      add: async (at) => {
        const name = randomUUID()
        const values = { name, name_key: name, reason: '', created_at: moment(at) }
        return (await db.insertInto('holds').values(values).returning('id').executeTakeFirstOrThrow()).id
      },
      remove: remove('holds'),
      change: (id) => world.asAdmin.holds.update(id, { reason: 'changed' }),
    },
    'GET /api/retention/report': {
      path: () => '/api/retention/report?',
      field: 'data',
      as: 'ada',
      // Every third is only under hold.
      add: async (at) => {
        const { id } = await upload(world.asAda, 'retained.txt', `bytes ${randomUUID()}`)
        if (at % 3) await world.asAda.documents.update(id, { retain_until: `209${at % 3}-01-01` })
        else await world.asAdmin.holds.add(holdId, [id])
        return id
      },
      // Neither retention nor hold lets it go.
      remove: (id) => sql`update documents set owner_id = ${world.bob.id} where id = ${id}`.execute(db),
      change: (id) => world.asAda.documents.update(id, { title: 'changed' }),
    },
    'GET /api/sources': {
      path: () => '/api/sources?',
      field: 'sources',
      as: 'ada',
      add: async (at) => {
        const values = {
          owner_id: world.ada.id,
          name: `Source ${at % 3}`,
          type: 's3',
          url: 'https://x.example.org/b',
          totals: '{}',
        } as const
        return (await db.insertInto('sources').values(values).returning('id').executeTakeFirstOrThrow()).id
      },
      remove: remove('sources'),
      change: (id) => db.updateTable('sources').set({ last_error: 'changed' }).where('id', '=', id).execute(),
    },
    'GET /api/tokens': {
      path: () => '/api/tokens?',
      field: 'tokens',
      as: 'ada',
      add: async (at) => {
        const name = randomUUID()
        const values = { user_id: world.ada.id, name, name_key: name, token_hash: name, scopes: ['read' as const], token_version: 1 }
        const row = { ...values, created_at: moment(at) }
        return (await db.insertInto('api_tokens').values(row).returning('id').executeTakeFirstOrThrow()).id
      },
      remove: remove('api_tokens'),
      change: (id) => db.updateTable('api_tokens').set({ last_used_at: new Date() }).where('id', '=', id).execute(),
    },
    ...Object.fromEntries(
      [null, await world.comment(world.ada, documentId)].map((parent): [string, List] => [
        `GET /api/comments/documents/:document_id/comments${parent === null ? '' : '/:comment_id/replies'}`,
        {
          path: () => `/api/comments/documents/${documentId}/comments${parent === null ? '' : `/${parent}/replies`}?`,
          field: parent === null ? 'comments' : 'replies',
          size: 'limit',
          as: 'ada',
          add: async (at) => {
            const values = { document_id: documentId, parent_id: parent, user_id: world.ada.id, content: 'x', created_at: moment(at) }
            return (await db.insertInto('comments').values(values).returning('id').executeTakeFirstOrThrow()).id
          },
          remove: remove('comments'),
          change: (id) => world.asAda.comments.update(documentId, id, 'changed'),
        },
      ]),
    ),
    ...Object.fromEntries(
      ['asc', 'desc'].map((order): [string, List] => [
        `GET /api/audit ${order}`,
        {
          path: () => `/api/audit?action=walked&order=${order}`,
          field: 'entries',
          key: 'seq',
          size: 'limit',
          as: 'admin',
          add: async () => {
            const act = { at: new Date(), actor_id: null, actor: 'operator', via: 'api', ip: '', action: 'walked', target: '' } as const
            await openAuditLog(world.app)([{ ...act, outcome: 'ok', code: null, details: {}, request_id: '' }])
            const newest = db.selectFrom('audit_entries').select('seq').orderBy('seq', 'desc').limit(1)
            return String((await newest.executeTakeFirstOrThrow()).seq)
          },
          // The log is only ever added to.
          remove: async () => {},
          change: async () => {},
        },
      ]),
    ),
  }
}

test('each route with a cursor has a test below', async () => {
  const world = await startWorld()
  const withCursor = world.routes.filter(({ shape }) => fieldsOf(shape.query).includes('cursor')).map(nameOf)
  expect([...new Set(Object.keys(await listsOf(world)).map(routeOf))].sort()).toEqual(withCursor.sort())
  expect([...routes].sort()).toEqual(withCursor.sort())
})

interface Answer {
  pagination: { next_cursor: string | null }
}

const acts = fc.array(fc.tuple(fc.constantFrom('add', 'remove', 'change'), fc.nat(1000)), { minLength: 4, maxLength: 16 })

test.each(routes)('%s: each unchanged entry is returned once during random insertions, deletions and changes', async (route) => {
  const world = await startWorld()
  for (const [name, list] of Object.entries(await listsOf(world))) {
    if (routeOf(name) !== route) continue
    const walk = fc.asyncProperty(acts, fc.integer({ min: 1, max: 4 }), (during, perPage) => walkOne(world, list, during, perPage))
    await fc.assert(walk, { numRuns: 3 })
  }
})

async function walkOne(world: World, list: List, during: readonly [act: string, which: number][], perPage: number): Promise<void> {
  const made: string[] = []
  for (let at = 0; at < 9; at++) made.push(await list.add(at))
  const staying = new Set(made)
  const counts = new Map<string, number>()
  const queue = [...during]
  for (let cursor: string | null = ''; cursor !== null; ) {
    const answer: Answer = await get(world, list, `${list.size ?? 'per_page'}=${perPage}${cursor ? `&cursor=${cursor}` : ''}`)
    for (const id of idsIn(list, answer)) counts.set(id, (counts.get(id) ?? 0) + 1)
    cursor = answer.pagination.next_cursor
    for (const [act, which] of queue.splice(0, 2)) {
      const id = made[which % made.length] ?? ''
      if (act === 'add') made.push(await list.add(which))
      else if (act === 'change') await list.change(id)
      else if (made.length > 1) {
        await list.remove(id)
        made.splice(made.indexOf(id), 1)
        staying.delete(id)
      }
    }
  }
  for (const id of made) await list.remove(id)
  expect([...staying].filter((id) => counts.get(id) !== 1)).toEqual([])
  expect([...counts.values()].every((count) => count === 1)).toBe(true)
}

const client = (world: World, list: List) => (list.as === 'ada' ? world.asAda : world.asAdmin)
const get = (world: World, list: List, query: string) => client(world, list).call<Answer>('GET', `${list.path()}&${query}`)
const idsIn = (list: List, answer: Answer): string[] =>
  ((answer as unknown as Record<string, Record<string, unknown>[]>)[list.field] ?? []).map((entry) => String(entry[list.key ?? 'id']))

const odd = ['', 'x', null, -1, 1e300, '2026-02-30T00:00:00', '275760-01-01T00:00:00', 'infinity', 'a\0b', '\ud800', [], {}, 'NaN']

test.each(routes)('%s: 400 VALIDATION_ERROR naming cursor for a malformed cursor or one of another list; never 5xx', async (route) => {
  const world = await startWorld()
  for (const [name, list] of Object.entries(await listsOf(world))) {
    if (routeOf(name) !== route) continue
    for (const at of [0, 1, 2]) await list.add(at)
    const ask = (query: string) => client(world, list).send('GET', `${list.path()}&${list.size ?? 'per_page'}=1&${query}`)
    const cursor = (await get(world, list, `${list.size ?? 'per_page'}=1`)).pagination.next_cursor ?? ''
    const [fingerprint, total, key] = JSON.parse(Buffer.from(cursor, 'base64url').toString()) as [string, number, unknown[]]
    const forged = (...parts: unknown[]) => Buffer.from(JSON.stringify(parts)).toString('base64url')
    for (const bad of [
      'x',
      '',
      '[]',
      'bnVsbA',
      forged('other', total, key),
      forged(fingerprint, -1, key),
      forged(fingerprint, total, []),
    ]) {
      const response = await ask(`cursor=${bad}`)
      expect([bad, response.status]).toEqual([bad, 400])
      expect(await response.json()).toMatchObject({ error: { details: { issues: [{ path: 'cursor', message: expect.any(String) }] } } })
    }
    for (const values of key.flatMap((_, at) => odd.map((value) => key.with(at, value))))
      expect([200, 400], `${name} ${JSON.stringify(values)}`).toContain((await ask(`cursor=${forged(fingerprint, total, values)}`)).status)
    expect((await ask(`cursor=${cursor}`)).status).toBe(200)
  }
})

test('400 for a cursor with page, and for one of another filter, sort or order', async () => {
  const { asAda, ada, document } = await startWorld()
  for (let made = 0; made < 3; made++) await document(ada)
  const { pagination } = await asAda.call<Answer>('GET', '/api/documents?per_page=1&sort=title')
  const cursor = pagination.next_cursor
  for (const query of ['sort=title&order=asc', 'sort=size', 'sort=title&status=failed', '', 'sort=title&page=2'])
    expect((await asAda.send('GET', `/api/documents?per_page=1&${query}&cursor=${cursor}`)).status, query).toBe(400)
  // How much of each is shown may change.
  expect(await asAda.call('GET', `/api/documents?per_page=2&sort=title&cursor=${cursor}&fields=title`)).toMatchObject({
    pagination: { page: 1, total: 3, has_prev: false, has_next: false, next_cursor: null },
  })
})
