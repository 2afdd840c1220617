import type { Command } from 'commander'
import type { Cli } from '../src/cli/context.ts'
import { usage } from '../src/cli/exit.ts'
import { startFindings } from '../src/cli/findings.ts'
import { manual } from '../src/cli/manual.ts'
import { plain } from '../src/plain.ts'
import type { Unfound } from '../src/search/verify.ts'

const columns = ['document_id', 'field', 'query'].map((name) => ({ name }))

export const searchVerify = (cli: Cli): Command =>
  manual('verify', {
    summary: 'Look for documents by words of theirs, and say which are not found. Runs on the server, also while it serves.',
    examples: [
      ['search verify', 'a thousand, picked at random'],
      ['search verify --sample 100 -q || dms search reindex', 'from cron'],
    ],
    notes: [
      'Each is searched for by phrases of its title and from all over its text, together with its owner, type, labels, source and time.',
      'Where only numbers matter, search status --check is quicker. What waits to be indexed is left out.',
    ],
    exits: '0 all are found · 2 bad flag · 3 some are not · 69 database or search unreachable',
  })
    .option('--sample <n>', 'so many documents', '1000')
    .action(async ({ sample }: { sample: string }) => {
      if (!/^[1-9]\d{0,8}$/.test(sample)) throw usage(`--sample ${sample}: a whole number from 1 on`)
      const app = await cli.app('search verify', { statementTimeout: false })
      const { verify } = await import('../src/search/verify.ts')
      const findings = startFindings<Unfound>(cli, 'search verify', columns, sentence)
      const progress = cli.progress('search verify')
      const looking = verify(app, {
        sample: Number(sample),
        signal: cli.signal,
        onProgress: (done, total) => progress.update({ done, total }),
      })
      let next = await looking.next()
      for (; !next.done; next = await looking.next()) findings.add(next.value)
      progress.done()
      findings.finish({ engine: app.search.name, documents: next.value })
    })

const sentence = ({ document_id, field, query }: Unfound): string => `FAIL  ${document_id}  ${field}: not found by ${plain(query)}`
