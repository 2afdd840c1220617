import type { Command } from 'commander'
import { group, manual } from '../../src/cli/output/manual.ts'
import type { Cli } from '../../src/cli/runtime/context.ts'
import { ocrQueueCancel } from './cancel.ts'
import { ocrQueueList } from './list.ts'
import { ocrQueuePause } from './pause.ts'
import { ocrQueuePrioritise } from './prioritise.ts'
import { ocrQueueRecover } from './recover.ts'
import { ocrQueueResume } from './resume.ts'
import { ocrQueueRetry } from './retry.ts'
import { ocrQueueStatus } from './status.ts'
import { ocrQueueWait } from './wait.ts'

export const ocr = (cli: Cli): Command => group('ocr', 'Manage the OCR queue', [ocrQueue(cli)])

/** `dms ocr queue` is a group, and without a subcommand it runs `status`. */
const ocrQueue = (cli: Cli): Command =>
  manual('queue', {
    summary: 'Show and change the OCR queue',
    examples: [
      ['ocr queue', 'number of jobs by state'],
      ['ocr queue list --status failed', 'failed jobs with their errors'],
      ['ocr queue retry --failed', 'run OCR on them again'],
      ['ocr queue wait --timeout 1h', 'until the queue is empty'],
    ],
  })
    .addCommand(ocrQueueList(cli))
    .addCommand(ocrQueueRetry(cli))
    .addCommand(ocrQueueCancel(cli))
    .addCommand(ocrQueuePrioritise(cli))
    .addCommand(ocrQueueWait(cli))
    .addCommand(ocrQueuePause(cli))
    .addCommand(ocrQueueResume(cli))
    .addCommand(ocrQueueRecover(cli))
    .addCommand(ocrQueueStatus(cli), { isDefault: true })
