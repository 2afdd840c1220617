import { expect, test } from 'vitest'
import { openSlots } from '../../src/concurrency.ts'

test('works wait in turns by name, and in their order within a name', async () => {
  const slots = openSlots(1)
  await slots.acquire('ada')
  const started: string[] = []
  const wait = (name: string, label: string) =>
    slots.acquire(name).then(() => {
      started.push(label)
      slots.release()
    })
  const all = [wait('ada', 'ada 1'), wait('ada', 'ada 2'), wait('ada', 'ada 3'), wait('bob', 'bob 1'), wait('bob', 'bob 2')]
  slots.release()
  await Promise.all(all)
  expect(started).toEqual(['ada 1', 'bob 1', 'ada 2', 'bob 2', 'ada 3'])
})

test('a work that is aborted while it waits takes no slot', async () => {
  const slots = openSlots(1)
  await slots.acquire('ada')
  const stop = new AbortController()
  const aborted = slots.acquire('bob', stop.signal)
  const next = slots.acquire('bob')
  stop.abort(new Error('gone'))
  await expect(aborted).rejects.toThrow('gone')
  slots.release()
  await next
})
