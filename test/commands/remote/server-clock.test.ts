/** Times that count from now, over HTTP to a server whose clock differs. */
import { expect, test } from 'vitest'
import { upload } from '../../support/app.ts'
import { startCli } from '../../support/cli-transports.ts'
import { startProxy } from '../../support/servers/intercepting-proxy.ts'

const minuteMs = 60_000

test('durations and days count from the clock of the server; dates need no request for it', async () => {
  const { dms, url, asAda } = await startCli('HTTP')
  const { id } = await upload(asAda, 'a.txt', 'a')
  const aheadMs = 3 * 86_400_000
  let paths: string[] = []
  let requests: string[] = []
  const record = async (path: string, body: Buffer) => {
    paths.push(path)
    requests.push(decodeURIComponent(path), body.toString())
    return undefined
  }
  const env = { DMS_URL: await startProxy(url, record, { aheadMs }) }
  const sentBy = async (args: readonly string[]): Promise<string> => {
    ;[paths, requests] = [[], []]
    await dms(args, { env })
    return requests.join('\n').replaceAll('%3A', ':')
  }
  const timed: [args: string[], offsetMs: number][] = [
    [['documents', 'list', '--since', '10m'], -10],
    [['audit', 'list', '--until', '10m'], -10],
    [['search', 'query', 'word', '--since', '10m'], -10],
    [['shared-links', 'create', id, '--expires', '10m'], 10],
    [['tokens', 'create', 'scanner', '--scope', 'read', '--expires', '10m'], 10],
    [['retention', 'set', id, '--until', '10m'], 10],
  ]
  for (const [args, minutes] of timed) {
    const [time = ''] = /\d{4}-\d\d-\d\dT[\d:.]+Z/.exec(await sentBy(args)) ?? []
    const difference = Date.parse(time) - Date.now() - aheadMs
    expect([args, Math.abs(difference - minutes * minuteMs) < 5 * minuteMs]).toEqual([args, true])
  }
  for (const args of [
    ['documents', 'list', '--date', '1d'],
    ['search', 'query', 'word', '--date', 'yesterday'],
  ]) {
    const day = new Date(Date.now() + aheadMs - 86_400_000).toISOString().slice(0, 10)
    expect([args, await sentBy(args)]).toEqual([args, expect.stringContaining(day)])
  }
  await sentBy(['documents', 'list', '--since', '2026-01-01', '--until', '2026-01-02T08:00:00Z', '--date', '2025..'])
  expect(paths.filter((path) => path.includes('health'))).toEqual([])
})
