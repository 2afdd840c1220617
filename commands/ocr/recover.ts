import type { Command } from 'commander'
import { startBatch } from '../../src/cli/output/batch-output.ts'
import { manual } from '../../src/cli/output/manual.ts'
import type { Cli } from '../../src/cli/runtime/context.ts'
import { exitOfAbort } from '../../src/cli/runtime/run-batch.ts'

export const ocrQueueRecover = (cli: Cli): Command =>
  manual('recover', {
    summary: 'Queue unfinished documents that have no OCR job',
    examples: [
      ['ocr queue recover', 'after a crash or a restore'],
      ['check --checks status,queue', 'only list them'],
    ],
    exits: '0 queued, or nothing to do · 4 not signed in · 5 not an admin · 69 server unreachable · 130 interrupted',
    notes: ['Finds documents in status pending or processing without a live job. Jobs of a crashed worker are taken over without this.'],
  }).action(async () => {
    const { ocrQueue } = await cli.client()
    const batch = startBatch(cli, 'ocr queue recover')
    while (!cli.signal.aborted) {
      const { recovered } = await ocrQueue.recover()
      for (const { document_id, job_id } of recovered) batch.add({ action: 'queued', key: document_id, id: job_id, document_id })
      if (recovered.length === 0) break
    }
    if (cli.signal.aborted) cli.exit = exitOfAbort(cli.signal)
    batch.finish()
  })
