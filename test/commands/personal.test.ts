/** Comments, notifications and settings. */
import { expect, test } from 'vitest'
import { upload } from '../support/app.ts'
import { startCli } from '../support/cli-transports.ts'
import { runHere } from '../support/processes/run-here.ts'

test('comments: add, reply, edit, delete; list prints replies after their comment', async () => {
  const { dms, asAda, asBob, asAdmin } = await startCli('HTTP')
  const { id } = await upload(asAda, 'a.txt', 'a')
  const add = async (...args: string[]) => (await dms(['comments', 'add', id, ...args, '-o', 'id'])).stdout.trim()
  const first = await add('Pay', 'until Friday.')
  const second = await add('And', 'that.')
  const reply = await add('--reply-to', first, 'Done.')
  const piped = await dms(['comments', 'edit', id, second, '--body-file', '-'], { input: 'two\nlines\n' })
  expect(piped.code).toBe(0)
  const rows = JSON.parse((await dms(['comments', 'list', id, '--json'])).stdout)
  expect(rows.map((row: { id: string; content: string }) => [row.id, row.content])).toEqual([
    [second, 'two\nlines'],
    [first, 'Pay until Friday.'],
    [reply, 'Done.'],
  ])
  expect((await dms(['comments', 'add', id, 'x', '--body-file', '-'])).code).toBe(2)
  expect(await dms(['comments', 'add', id])).toMatchObject({ code: 2, stderr: expect.stringContaining('--body-file') })
  expect((await dms(['comments', 'delete', id, first])).code).toBe(2)
  expect((await dms(['comments', 'delete', id, first, '-y'])).code).toBe(0)
  expect(await asAdmin.comments.count(id)).toBe(1)
  await expect(asBob.comments.list(id)).rejects.toMatchObject({ status: 404 })
})

test('comments list marks deleted authors in tables; json has user_id null', async () => {
  const { dms, app, asAda, asAdmin, bob } = await startCli('HTTP')
  const { id } = await upload(asAda, 'a.txt', 'a')
  await app.db.insertInto('comments').values({ document_id: id, user_id: bob.id, content: 'of bob' }).execute()
  await asAdmin.users.delete(bob.id)
  expect((await dms(['comments', 'list', id, '--fields', 'username,content'])).stdout).toMatch(/^bob \(deleted\)\tof bob$/m)
  expect(JSON.parse((await dms(['comments', 'list', id, '--json'])).stdout)).toMatchObject([{ username: 'bob', user_id: null }])
})

test('notifications and settings of a user; 2 for the operator', async () => {
  const { dms, asAda, runJobs, env } = await startCli('local')
  await upload(asAda, 'a.txt', 'a')
  await runJobs()
  const [news] = JSON.parse((await dms(['notifications', 'list', '--unread', '--json'])).stdout)
  expect(news).toMatchObject({ type: 'ocr_completed', read: false })
  expect((await dms(['notifications', 'read', news.id])).code).toBe(0)
  expect((await dms(['notifications', 'list', '--unread'])).stdout).toBe('')
  expect((await dms(['notifications', 'read', '--all'])).stdout).toBe('updated\t0\n')
  expect((await dms(['settings', 'set', 'theme=dark', 'notifications_enabled=no', 'items_per_page=7'])).code).toBe(0)
  expect(await asAda.settings.get()).toMatchObject({ theme: 'dark', notifications_enabled: false, items_per_page: 7 })
  expect((await dms(['settings', 'get', 'items_per_page'])).stdout).toBe('7\n')
  for (const pair of ['theme=pink', 'color=red', 'theme', 'notifications_enabled=perhaps'])
    expect(await dms(['settings', 'set', pair])).toMatchObject({ code: 2, stderr: expect.stringContaining(pair) })
  const { DMS_AS: _, ...operator } = env as Record<string, string>
  for (const words of [
    ['notifications', 'list'],
    ['settings', 'get'],
  ])
    expect(await runHere(words, { env: operator })).toMatchObject({ code: 2, stderr: expect.stringContaining('fix: pass --as USER') })
})
