import { expect, test } from 'vitest'
import { upload } from './support/app.ts'
import { startLive } from './support/live.ts'

test('an event reaches its owner and admins on both servers', async () => {
  const dms = await startLive()
  const [ada, bob, root] = [
    await dms.joined(dms.ada, ['document_created'], { server: 1 }),
    await dms.joined(dms.bob, ['document_created']),
    await dms.joined(dms.admin, ['document_created']),
  ]
  const { id } = await upload(dms.asAda, 'a.txt', 'hello')
  const event = await ada.next('document_created')
  expect(event).toEqual({
    type: 'document_created',
    document_id: id,
    title: 'a',
    source: null,
    data: { document_id: id, title: 'a', source: null },
    timestamp: expect.any(String),
    seq: expect.any(Number),
  })
  expect((await root.next('document_created')).seq).toBe(event.seq)
  expect(bob.messages).toEqual([])
})
