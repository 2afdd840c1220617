import type { Command } from 'commander'
import { manual } from '../../src/cli/output/manual.ts'
import type { Column } from '../../src/cli/output/output.ts'
import type { Cli } from '../../src/cli/runtime/context.ts'
import { usage } from '../../src/cli/runtime/exit.ts'
import type { Client } from '../../src/client/client.ts'

type Verdict = Awaited<ReturnType<Client['audit']['verify']>>

const columns: Column<Verdict>[] = [
  { name: 'ok' },
  { name: 'entries', align: 'right' },
  { name: 'head', value: ({ head }) => (head ? `${head.seq}:${head.hash}` : '') },
  { name: 'problem', value: ({ problem }) => (problem ? `entry ${problem.seq}: ${problem.message}` : '') },
]

export const auditVerify = (cli: Cli): Command =>
  manual('verify', {
    summary: 'Verify the hash chain of the audit log',
    examples: [
      ['audit verify', 'prints the head, to store on another machine'],
      ['audit verify --head 1284:9f2c…', 'also checks that the log still contains this head'],
    ],
    exits: '0 intact · 2 bad --head · 3 entries changed, removed or truncated · 5 not an admin · 69 server unreachable',
    notes: ['Somebody with write access to the database can rewrite the whole log. Only a head stored elsewhere detects that.'],
  })
    .option('--head <number:hash>', 'head printed by an earlier run')
    .action(async ({ head }: { head?: string }) => {
      const knownHead = head === undefined ? null : parseHead(head)
      const { audit } = await cli.client()
      const verdict = await audit.verify(knownHead)
      cli.print(verdict, { columns })
      if (!verdict.ok) cli.exit = 'PARTIAL'
    })

function parseHead(given: string): { seq: number; hash: string } {
  const [, seq, hash] = /^([1-9]\d*):([0-9a-f]{64})$/.exec(given) ?? []
  if (seq === undefined || hash === undefined) throw usage(`--head ${given} is not NUMBER:HASH with a hash of 64 hexadecimal digits`)
  return { seq: Number(seq), hash }
}
