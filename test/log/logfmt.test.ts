import { expect, test } from 'vitest'
import { formatLogfmt } from '../../src/log/logfmt.ts'

test('logfmt: plain values, quoted ones, members of objects, control characters', () => {
  const line = {
    ...{ level: 'info', time: '2026-01-02T03:04:05.000Z', status: 200, path: '/api/documents?q=a', empty: '', none: null },
    ...{ queues: ['ocr', 'sync'], err: { type: 'Error', message: 'said "no"\nC:\\x\u001b[2J' }, 'odd key': 1, msg: 'job done' },
  }
  expect(formatLogfmt(`${JSON.stringify(line)}\n`)).toBe(
    'level=info time=2026-01-02T03:04:05.000Z status=200 path="/api/documents?q=a" empty="" none=null ' +
      'queues="[\\"ocr\\",\\"sync\\"]" err.type=Error err.message="said \\"no\\"\\nC:\\\\x\\x1b[2J" odd_key=1 msg="job done"\n',
  )
})
