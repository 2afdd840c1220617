/**
 * Injects faults into a real server, lets an auditor of its own look at what is left, and prints what came of each.
 *
 *   npm run test:faults [-- --short] [--only F17]…
 *
 * --short: fewer of each, within three minutes. What this machine cannot do (a program is missing, only root may) is skipped and says so.
 * Ends with 1 when something acknowledged was lost, something is there by half or twice, or an answer was not what it must be.
 */
import { parseArgs } from 'node:util'
import Table from 'cli-table3'
import { faults } from './faults/all.ts'
import { unsettled } from './faults/audit.ts'
import type { Fault, Told } from './faults/fault.ts'
import { openPlace } from './faults/place.ts'

const { values } = parseArgs({
  options: { only: { type: 'string', multiple: true }, short: { type: 'boolean', default: false } },
})

const say = (line: string): void => void process.stdout.write(`${line}\n`)
const table = new Table({
  head: ['fault', 'injected', 'acknowledged', 'lost', 'half', 'duplicate', 'unavailable s p50/max', 'manual steps'],
  style: { head: [], border: [] },
})
const problems: string[] = []
const skipped: string[] = []

let place = await openPlace()
for (const signal of ['SIGINT', 'SIGTERM'] as const) process.once(signal, () => void place.remove().finally(() => process.exit(130)))
try {
  for (const fault of faults) if (!values.only || values.only.includes(fault.id)) await tryOne(fault)
  await settle()
} finally {
  await place.remove()
}
say(table.toString())
for (const reason of skipped) say(`skipped ${reason}`)
say(problems.length === 0 ? 'all as it should be' : `${problems.length} problems`)
process.exitCode = problems.length === 0 ? 0 : 1

/** After all of them: what was only on its way to being removed is gone. */
async function settle(): Promise<void> {
  const server = await place.start()
  const left = await unsettled(place, 30_000)
  if (left.length > 0) problems.push(`I3 ${left.length} files remain that nobody needs: ${left.slice(0, 3).join(', ')}`)
  const code = await server.stop()
  if (code !== 0) problems.push(`the last server ended with ${code}`)
  for (const problem of problems.slice(-2)) if (!problem.startsWith('F')) say(`✗ ${problem}`)
}

async function tryOne(fault: Fault): Promise<void> {
  const reason = fault.missing?.() ?? null
  if (reason !== null) {
    skipped.push(`${fault.id} ${fault.name}: ${reason}`)
    return
  }
  const begun = performance.now()
  try {
    const told = await fault.run({ place, isShort: values.short, openPlace })
    table.push(rowOf(fault, told))
    problems.push(...told.problems.map((problem) => `${fault.id} ${problem}`))
    say(`${fault.id} ${fault.name}: ${[`${seconds(begun)} s`, ...told.notes].join('; ')}`)
    for (const problem of told.problems) say(`  ✗ ${problem}`)
  } catch (error) {
    problems.push(`${fault.id} broke off: ${(error as Error).stack}`)
    say(`  ✗ ${problems.at(-1)}`)
    await place.remove()
    place = await openPlace()
  }
}

function rowOf({ id, name }: Fault, { injected, acknowledged, lost, half, duplicate, outages, manual }: Told): string[] {
  const sorted = outages.toSorted((a, b) => a - b)
  const shown = (milliseconds = 0) => (milliseconds / 1000).toFixed(1)
  const unavailable = sorted.length === 0 ? '0' : `${shown(sorted[sorted.length >> 1])} / ${shown(sorted.at(-1))}`
  return [`${id} ${name}`, injected, ...[acknowledged, lost, half, duplicate].map(String), unavailable, String(manual)]
}

function seconds(begun: number): string {
  return ((performance.now() - begun) / 1000).toFixed(0)
}
