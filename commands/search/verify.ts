import { parseCount } from '../../src/cli/arguments/flag-values.ts'
import { startFindings } from '../../src/cli/output/findings.ts'
import { manual } from '../../src/cli/output/manual.ts'
import { columnsOf } from '../../src/cli/output/output.ts'
import type { Cli } from '../../src/cli/runtime/context.ts'
import { escapeControls } from '../../src/log/escape.ts'
import type { Fault } from '../../src/search/verify.ts'

const columns = columnsOf(['document_id', 'problem', 'engine', 'field', 'query', 'left', 'lacks'])

export const verify = (cli: Cli) =>
  manual('verify', {
    summary: 'Compare the search index with the documents',
    examples: [
      ['search verify', 'all entries, and the text of 1000 random documents'],
      ['dms search verify --sample 100 -q || dms search reindex', 'from cron'],
    ],
    notes: [
      'Runs on the server only, also while the server is running. Waiting index jobs are not counted as differences.',
      'missing: document without an entry. extra: entry without a document. Of each, at most 1000 are reported.',
      'stale (in the sample): the entry has words that its document lacks, or lacks some. unfound (in the sample): phrases of title and text, with the document’s filters, do not find it.',
      'For counts alone, search status --check is faster.',
    ],
    exits: '0 no differences · 2 bad flag · 3 differences found · 69 database or search unreachable',
  })
    .option('--sample <n>', 'number of documents whose text is compared', '1000')
    .action(async ({ sample }: { sample: string }) => {
      const sampleSize = parseCount('--sample', sample)
      const app = await cli.app('search verify', { hasStatementTimeout: false })
      const { verify } = await import('../../src/search/verify.ts')
      const findings = startFindings<Fault>(cli, 'search verify', columns, formatFault)
      const progress = cli.progress('search verify')
      const faults = verify(app, {
        sample: sampleSize,
        signal: cli.signal,
        onProgress: (done, total) => progress.update({ done, total }),
      })
      const failed = new Set<string>()
      let next = await faults.next()
      for (; !next.done; next = await faults.next()) {
        failed.add(next.value.document_id)
        findings.add(next.value)
      }
      progress.done()
      const { index } = await app.search.status()
      findings.finish({ engine: app.search.name, index, documents: next.value, failed: failed.size })
    })

function formatFault({ document_id, problem, engine, field, query, left, lacks }: Fault): string {
  const words = (some: readonly string[]) => escapeControls(some.join(' '))
  const description = {
    unfound: `${field}: not found with the query ${escapeControls(query ?? '')}`,
    missing: `no entry in the index (${engine})`,
    extra: `index entry without a document (${engine})`,
    stale: [
      ...(left.length > 0 ? [`found by words it no longer has: ${words(left)}`] : []),
      ...(lacks.length > 0 ? [`not found by: ${words(lacks)}`] : []),
    ].join('; '),
  }[problem]
  return `FAIL  ${escapeControls(document_id)}  ${description}${problem === 'stale' ? ` (${engine})` : ''}`
}
