import type { Kysely } from 'kysely'
import { describe, expect, onTestFinished, test } from 'vitest'
import { down, up } from '../../migrations/0032_comment_authors.ts'
import { operator } from '../../src/actor.ts'
import { localClient } from '../../src/client/local.ts'
import { startApp, upload } from '../support/app.ts'
import { startKillable } from '../support/processes/killable.ts'
import { tokenFor } from '../support/servers/server.ts'

type Settings = Parameters<typeof startApp>[0]

interface Comment {
  id: string
  user_id: string | null
  content: string
  parent_id: string | null
  created_at: string
  updated_at: string
}

interface Thread extends Comment {
  reply_count: number
  replies: Comment[]
}

interface Page {
  comments: Thread[]
  replies: Comment[]
  total: number
}

const unknown = '01890a5d-ac96-774b-bcce-b302099a8057'

/** Documents of Ada and Bob, and the URLs of their comments. */
async function withDocuments(settings: Settings = {}) {
  const started = await startApp({ 'limits.comments_per_minute': 0, ...settings })
  const [mine, theirs] = [await upload(started.asAda, 'mine.txt', 'apples'), await upload(started.asBob, 'theirs.txt', 'pears')]
  const of = (document: string, more = '') => `/api/comments/documents/${document}/comments${more}`
  const { asAda, later } = started
  return {
    ...started,
    of,
    mine: of(mine.id),
    theirs: of(theirs.id),
    document: mine,
    /** Adds a comment of Ada, a second after the last one. */
    say: async (content: string, parent_id?: string) => {
      await later(1000)
      return asAda.call<Comment>('POST', of(mine.id), { content, parent_id })
    },
  }
}

describe('writing', () => {
  test('201 with all fields; fields that a client must not set are ignored', async () => {
    const { asAda, ada, bob, mine, document, say } = await withDocuments()
    const first = await asAda.call<Comment>('POST', mine, {
      content: ' <b>öäü</b>\n😀 ',
      user_id: bob.id,
      is_edited: true,
      created_at: '2020-01-01',
    })
    expect(first).toEqual({
      id: expect.stringMatching(/^[0-9a-f-]{36}$/),
      document_id: document.id,
      parent_id: null,
      user_id: ada.id,
      username: 'ada',
      user_role: 'user',
      content: ' <b>öäü</b>\n😀 ',
      is_edited: false,
      created_at: expect.stringMatching(/^202[6-9]-.*Z$/),
      updated_at: first.created_at,
    })
    expect(await say('yes', first.id)).toMatchObject({ parent_id: first.id })
  })

  test('length counts code points: 10,000 emoji are accepted, one more is 400 COMMENT_CONTENT_TOO_LONG', async () => {
    const { asAda, mine } = await withDocuments()
    const longest = '😀'.repeat(10_000)
    const { id, content } = await asAda.call<Comment>('POST', mine, { content: longest })
    expect(content).toBe(longest)
    for (const [method, path] of [
      ['POST', mine],
      ['PUT', `${mine}/${id}`],
    ] as const)
      for (const content of [`${longest}.`, 'x'.repeat(10_001), 'x'.repeat(900_000)])
        await expect(asAda.call(method, path, { content })).rejects.toMatchObject({ status: 400, code: 'COMMENT_CONTENT_TOO_LONG' })
  })

  test('400 COMMENT_CONTENT_EMPTY for white space, VALIDATION_ERROR for anything but text', async () => {
    const { asAda, mine, say } = await withDocuments()
    const { id } = await say('here')
    for (const [method, path] of [
      ['POST', mine],
      ['PUT', `${mine}/${id}`],
    ] as const) {
      for (const content of ['', ' \n\t\u00a0'])
        await expect(asAda.call(method, path, { content })).rejects.toMatchObject({ status: 400, code: 'COMMENT_CONTENT_EMPTY' })
      for (const body of [{}, { content: 5 }, { content: null }, { content: ['a'] }, { content: 'a\0b' }, { content: 'a\ud800' }])
        await expect(asAda.call(method, path, body)).rejects.toMatchObject({ status: 400, code: 'VALIDATION_ERROR' })
    }
    expect((await asAda.call<Page>('GET', mine)).comments).toMatchObject([{ content: 'here', is_edited: false }])
  })

  test('400 COMMENT_NESTING_TOO_DEEP for a reply to a reply', async () => {
    const { say } = await withDocuments()
    const reply = await say('second', (await say('first')).id)
    await expect(say('third', reply.id)).rejects.toMatchObject({ status: 400, code: 'COMMENT_NESTING_TOO_DEEP' })
  })

  test('404 COMMENT_NOT_FOUND for a parent that does not exist or is on another document', async () => {
    const { asBob, theirs, say } = await withDocuments()
    const other = await asBob.call<Comment>('POST', theirs, { content: 'hers' })
    for (const parent of [unknown, 'nonsense', '', other.id])
      await expect(say('reply', parent)).rejects.toMatchObject({ status: 404, code: 'COMMENT_NOT_FOUND' })
  })

  test('403 FORBIDDEN for the operator, who is no user', async () => {
    const { app, mine } = await withDocuments()
    await expect(localClient(app, operator).call('POST', mine, { content: 'me' })).rejects.toMatchObject({ status: 403, code: 'FORBIDDEN' })
  })

  test('429 COMMENT_RATE_LIMITED after ten a minute, with the seconds to wait; other users are not limited, and the author only until then', async () => {
    const { asAda, asAdmin, mine, later } = await withDocuments({ 'limits.comments_per_minute': 10 })
    await expect(asAda.call('POST', mine, { content: '' })).rejects.toMatchObject({ code: 'COMMENT_CONTENT_EMPTY' })
    for (let number = 1; number <= 10; number++) expect((await asAda.send('POST', mine, { content: `${number}` })).status).toBe(201)
    const refused = await asAda.send('POST', mine, { content: 'one more' })
    const body = (await refused.json()) as { retry_after_secs: number; error: { code: string; details: { retry_after_secs: number } } }
    expect([refused.status, body.error.code]).toEqual([429, 'COMMENT_RATE_LIMITED'])
    expect(body.retry_after_secs).toBeGreaterThan(0)
    expect([body.error.details.retry_after_secs, Number(refused.headers.get('retry-after'))]).toEqual(Array(2).fill(body.retry_after_secs))
    expect((await asAdmin.send('POST', mine, { content: 'another user' })).status).toBe(201)
    await later(body.retry_after_secs * 1000)
    expect((await asAda.send('POST', mine, { content: 'again' })).status).toBe(201)
  })

  test('of 12 at once on two servers exactly 10 are accepted', async () => {
    const { app, ada, asAda, mine, dataDir, databaseUrl } = await withDocuments()
    const servers = await Promise.all([1, 2].map(() => startKillable(dataDir, { DATABASE_URL: databaseUrl })))
    onTestFinished(async () => void (await Promise.all(servers.map((server) => server.stop()))))
    const headers = { authorization: `Bearer ${await tokenFor(app, ada)}`, 'content-type': 'application/json' }
    const answers = await Promise.all(
      Array.from({ length: 12 }, (_, n) =>
        fetch(new URL(mine, servers[n % 2]?.url), { method: 'POST', headers, body: JSON.stringify({ content: `${n}` }) }),
      ),
    )
    expect(answers.map(({ status }) => status).sort()).toEqual([...Array(10).fill(201), 429, 429])
    expect(await asAda.call('GET', `${mine}/count`)).toEqual({ count: 10 })
  })
})

describe('reading', () => {
  test('200: newest first, each with its number of replies and the first three, oldest first; replies are listed with their parent only', async () => {
    const { asAda, mine, say } = await withDocuments()
    const first = await say('first')
    const second = await say('second')
    for (const number of [1, 2, 3, 4]) await say(`reply ${number}`, first.id)
    const { comments, total } = await asAda.call<Page>('GET', mine)
    expect([total, comments.map(({ content }) => content)]).toEqual([2, ['second', 'first']])
    expect(comments[0]).toEqual({ ...second, reply_count: 0, replies: [] })
    expect(comments[1]).toMatchObject({ ...first, reply_count: 4 })
    expect(comments[1]?.replies.map(({ content }) => content)).toEqual(['reply 1', 'reply 2', 'reply 3'])

    const answered = await asAda.call<Page>('GET', `${mine}/${first.id}/replies`)
    expect(answered.replies.map(({ content }) => content)).toEqual(['reply 1', 'reply 2', 'reply 3', 'reply 4'])
    expect(comments[1]?.replies).toEqual(answered.replies.slice(0, 3))
    expect(answered).toMatchObject({ total: 4, limit: 50, offset: 0 })
    expect(await asAda.call('GET', `${mine}/${first.id}/replies?limit=2&offset=3`)).toMatchObject({
      replies: [{ content: 'reply 4' }],
      total: 4,
      limit: 2,
      offset: 3,
    })
    expect(await asAda.call('GET', `${mine}/count`)).toEqual({ count: 6 })
  })

  test('limit and offset select the page; past the end it is empty with the real total', async () => {
    const { asAda, mine, say } = await withDocuments()
    for (const content of ['a', 'b', 'c']) await say(content)
    const part = (query: string) => asAda.call<Page>('GET', `${mine}?${query}`)
    expect(await part('limit=2')).toMatchObject({ comments: [{ content: 'c' }, { content: 'b' }], total: 3, limit: 2, offset: 0 })
    expect(await part('limit=2&offset=2')).toMatchObject({ comments: [{ content: 'a' }], total: 3 })
    expect(await part('offset=1000000000')).toMatchObject({ comments: [], total: 3 })
  })

  test('400 VALIDATION_ERROR for a limit or offset of the wrong type or range', async () => {
    const { asAda, mine, say } = await withDocuments()
    const { id } = await say('here')
    for (const path of [mine, `${mine}/${id}/replies`])
      for (const query of ['limit=0', 'limit=101', 'limit=ten', 'limit=1.5', 'offset=-1', 'offset=9223372036854775807'])
        await expect(asAda.call('GET', `${path}?${query}`)).rejects.toMatchObject({ status: 400, code: 'VALIDATION_ERROR' })
  })
})

describe('changing and deleting', () => {
  test('PUT: 200, and edited is true from then on', async () => {
    const { asAda, mine, say, later } = await withDocuments()
    const comment = await say('befor')
    await later(1000)
    const changed = await asAda.call<Comment>('PUT', `${mine}/${comment.id}`, { content: 'before' })
    expect(changed).toEqual({ ...comment, content: 'before', is_edited: true, updated_at: changed.updated_at })
    expect(new Date(changed.updated_at).getTime()).toBeGreaterThan(new Date(comment.updated_at).getTime())
  })

  test('403 COMMENT_PERMISSION_DENIED: an admin may delete comments of others, but not change them; the owner of the document may do neither', async () => {
    const { asAda, asAdmin, mine, say } = await withDocuments()
    const [own, theirs] = [await say('mine'), await asAdmin.call<Comment>('POST', mine, { content: 'of the admin' })]
    for (const [client, method, id] of [
      [asAdmin, 'PUT', own.id],
      [asAda, 'PUT', theirs.id],
      [asAda, 'DELETE', theirs.id],
    ] as const)
      await expect(client.call(method, `${mine}/${id}`, method === 'PUT' ? { content: 'x' } : undefined)).rejects.toMatchObject({
        status: 403,
        code: 'COMMENT_PERMISSION_DENIED',
      })
    expect((await asAda.call<Page>('GET', mine)).comments).toMatchObject([
      { content: 'of the admin', user_role: 'admin', username: 'root', is_edited: false },
      { content: 'mine', is_edited: false },
    ])
    expect((await asAdmin.send('DELETE', `${mine}/${own.id}`)).status).toBe(204)
  })

  test('DELETE removes the replies too; of ten at once one is 204, the others 404', async () => {
    const { asAda, mine, say } = await withDocuments()
    const comment = await say('first')
    const reply = await say('reply', comment.id)
    const answers = await Promise.all(Array.from({ length: 10 }, () => asAda.send('DELETE', `${mine}/${comment.id}`)))
    expect(answers.map(({ status }) => status).sort()).toEqual([204, ...Array(9).fill(404)])
    expect(await asAda.call('GET', `${mine}/count`)).toEqual({ count: 0 })
    await expect(asAda.call('PUT', `${mine}/${reply.id}`, { content: 'x' })).rejects.toMatchObject({
      status: 404,
      code: 'COMMENT_NOT_FOUND',
    })
  })

  test('comments are deleted with their document', async () => {
    const { app, asAda, document, say } = await withDocuments()
    await say('reply', (await say('first')).id)
    await asAda.documents.delete(document.id, { permanent: true })
    expect(await app.db.selectFrom('comments').select('id').execute()).toEqual([])
  })
})

describe('a deleted author', () => {
  /** Adds a comment of Ada and one of an admin to a document of Ada, each with a reply of the other. */
  async function withThreads() {
    const started = await withDocuments()
    const { ada, bob, asAda, asAdmin, mine, say } = started
    const sayAsAdmin = (content: string, parent_id?: string) => asAdmin.call<Comment>('POST', mine, { content, parent_id })
    const own = await say('of ada')
    await sayAsAdmin('reply of root', own.id)
    await say('reply of ada', (await sayAsAdmin('of root')).id)
    const { comments } = await asAda.call<Page>('GET', mine)
    /** The comment after the deletion of Ada. */
    const withoutAda = <T extends Comment>(comment: T) =>
      comment.user_id === ada.id ? { ...comment, user_id: null, user_role: null } : comment
    const deleteAda = async (query: string) =>
      expect((await asAdmin.send('DELETE', `/api/users/${ada.id}?documents=${query}`)).status).toBe(204)
    return {
      ...started,
      own,
      transfer: () => deleteAda(`transfer&to=${bob.id}`),
      deleteAda,
      expected: comments.map((thread) => ({ ...withoutAda(thread), replies: thread.replies.map(withoutAda) })),
    }
  }

  test('200: comments and replies stay on a transferred document, with user_id and user_role null and the username', async () => {
    const { asBob, mine, expected, transfer } = await withThreads()
    await transfer()
    expect((await asBob.call<Page>('GET', mine)).comments).toEqual(expected)
    const [newest, oldest] = expected
    expect([newest?.replies, oldest]).toMatchObject([
      [{ content: 'reply of ada', user_id: null, user_role: null, username: 'ada' }],
      { content: 'of ada', user_id: null, user_role: null, username: 'ada', replies: [{ username: 'root', user_role: 'admin' }] },
    ])
    expect((await asBob.call<Page>('GET', `${mine}/${newest?.id}/replies`)).replies).toEqual(newest?.replies)
    expect(await asBob.call('GET', `${mine}/count`)).toEqual({ count: 4 })
  })

  test('200: comments on documents of other users stay, with all replies to them', async () => {
    const { app, asAda, asAdmin, bob, mine, say } = await withDocuments()
    await asAdmin.call('PUT', `/api/users/${bob.id}`, { role: 'admin' })
    const comment = await localClient(app, { ...bob.actor, role: 'admin' }).call<Comment>('POST', mine, { content: 'of bob' })
    const reply = await say('reply of ada', comment.id)
    expect((await asAdmin.send('DELETE', `/api/users/${bob.id}?documents=delete`)).status).toBe(204)
    expect((await asAda.call<Page>('GET', mine)).comments).toEqual([
      { ...comment, user_id: null, user_role: null, reply_count: 1, replies: [reply] },
    ])
  })

  test('403 COMMENT_PERMISSION_DENIED for a change by anybody, also the operator; an admin deletes the comment', async () => {
    const { app, asAdmin, asBob, mine, own, transfer } = await withThreads()
    await transfer()
    for (const client of [asBob, asAdmin, localClient(app, operator)])
      await expect(client.call('PUT', `${mine}/${own.id}`, { content: 'x' })).rejects.toMatchObject({
        status: 403,
        code: 'COMMENT_PERMISSION_DENIED',
      })
    expect((await asBob.send('DELETE', `${mine}/${own.id}`)).status).toBe(403)
    expect((await asAdmin.send('DELETE', `${mine}/${own.id}`)).status).toBe(204)
  })

  test('documents=delete deletes all comments on the documents', async () => {
    const { app, deleteAda } = await withThreads()
    await deleteAda('delete')
    expect(await app.db.selectFrom('comments').select('id').execute()).toEqual([])
  })

  test('the migration keeps all comments; back, comments of deleted users are lost with the replies to them', async () => {
    const { app, asAda, asBob, mine, expected, transfer } = await withThreads()
    const db = app.db as Kysely<unknown>
    const before = await asAda.call<Page>('GET', mine)
    await down(db)
    await up(db)
    expect(await asAda.call<Page>('GET', mine)).toEqual(before)
    await transfer()
    await down(db)
    await up(db)
    expect((await asBob.call<Page>('GET', mine)).comments).toEqual([{ ...expected[0], reply_count: 0, replies: [] }])
  })
})

describe('access', () => {
  const routes = [
    ['GET', ''],
    ['POST', ''],
    ['GET', '/count'],
    ['GET', '/COMMENT/replies'],
    ['PUT', '/COMMENT'],
    ['DELETE', '/COMMENT'],
  ] as const

  test('404 COMMENT_DOCUMENT_NOT_FOUND on every route for a document of another user, as for an unknown one', async () => {
    const { asBob, of, document, mine, say } = await withDocuments()
    const { id } = await say('private')
    for (const [method, more] of routes)
      for (const place of [mine, of(unknown), of('nonsense')]) {
        const path = place + more.replace('COMMENT', id)
        const body = method === 'POST' || method === 'PUT' ? { content: 'x', parent_id: id } : undefined
        await expect(asBob.call(method, path, body), path).rejects.toMatchObject({ status: 404, code: 'COMMENT_DOCUMENT_NOT_FOUND' })
      }
    expect(document.id).toBeDefined()
  })

  test('404 COMMENT_NOT_FOUND for an unknown id, a malformed id, and a comment of another document', async () => {
    const { asBob, theirs, say } = await withDocuments()
    const { id } = await say('private')
    for (const [method, more] of routes.slice(3))
      for (const comment of [id, unknown, 'nonsense'])
        await expect(
          asBob.call(method, theirs + more.replace('COMMENT', comment), method === 'PUT' ? { content: 'x' } : undefined),
        ).rejects.toMatchObject({ status: 404, code: 'COMMENT_NOT_FOUND' })
  })
})

describe('notifications', () => {
  test('comment_added is stored and sent as an event to the owner of the document, except for own comments', async () => {
    const { app, asAda, asAdmin, ada, mine, document, say } = await withDocuments()
    await say('my own')
    expect(await asAda.call('GET', '/api/notifications')).toMatchObject({ notifications: [] })
    const { id } = await asAdmin.call<Comment>('POST', mine, { content: `please  check\n${'x'.repeat(300)}` })
    const { notifications } = await asAda.call<{ notifications: object[] }>('GET', '/api/notifications')
    expect(notifications).toMatchObject([
      {
        type: 'comment_added',
        title: 'New comment',
        message: expect.stringMatching(/^root commented on mine\.txt: please check x{186}…$/),
        data: { document_id: document.id, comment_id: id },
      },
    ])
    const events = await app.db.selectFrom('events').select('user_id').where('type', '=', 'notification').execute()
    expect(events).toEqual([{ user_id: ada.id }])
  })
})
