/** npm run test:simulation: every order of purge, upload, backup, restore and repair, with lost connections, unknown COMMITs and crashes. */
import { parseArgs } from 'node:util'
import { exploreAll, type Order } from './simulation/scenarios.ts'

const { values } = parseArgs({ options: { order: { type: 'string', default: 'new' }, faults: { type: 'string', default: '2' } } })
if (values.order !== 'new' && values.order !== 'old') throw new Error('--order: new or old')
const order: Order = values.order

const print = (line: string) => process.stdout.write(`${line}\n`)

let violations = 0
for (const { name, states, interleavings, violating, violations: found } of exploreAll(order, Number(values.faults))) {
  violations += found.size
  print(`${name}: ${states} states, ${interleavings} interleavings, ${violating} with a violation`)
  for (const [invariant, trace] of found) print(`  VIOLATION: ${invariant}\n${trace.map((step) => `    ${step}`).join('\n')}`)
}
print(`order ${order}, at most ${values.faults} faults: ${violations} kinds of violation`)
process.exitCode = violations > 0 ? 1 : 0
