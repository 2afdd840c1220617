/**
 * Asks one address again and again and measures each answer, in a process of its own that nothing else keeps busy.
 *
 *   node probe-child.ts URL     on each line of standard input: a line of JSON with the milliseconds of the answers since the last one
 */
import { Agent, get } from 'node:http'
import { createInterface } from 'node:readline'

const everyMs = 20
const [url = ''] = process.argv.slice(2)
const agent = new Agent({ keepAlive: true })
let times: number[] = []
const open = new Set<number>()
let failed = 0

function ask(): void {
  const startedAt = performance.now()
  open.add(startedAt)
  const end = (isAnswered: boolean) => {
    if (!open.delete(startedAt)) return
    if (isAnswered) times.push(performance.now() - startedAt)
    else failed++
  }
  get(url, { agent }, (response) => {
    response.resume().once('end', () => end(response.statusCode === 200))
    response.once('error', () => end(false))
  }).once('error', () => end(false))
}

const clock = setInterval(ask, everyMs)
createInterface(process.stdin)
  .on('line', () => {
    // A request without an answer counts with its waiting time.
    const waiting = [...open].map((startedAt) => performance.now() - startedAt)
    process.stdout.write(`${JSON.stringify({ times: [...times, ...waiting], failed })}\n`)
    times = []
    failed = 0
  })
  .on('close', () => {
    clearInterval(clock)
    process.exit()
  })
