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

/** `dms ocr queue`: what waits to be read, what is read, what went wrong. Alone it says how many. */
export const ocr = (cli: Cli): Command => group('ocr', 'The OCR queue.', [queue(cli)])

function queue(cli: Cli): Command {
  const command = manual('queue', {
    summary: 'Show and change what waits to be read; alone: how much it is.',
    examples: [
      ['ocr queue', 'how much waits, runs, was done today and failed'],
      ['ocr queue list --status failed', 'which, and why'],
      ['ocr queue retry --failed', 'read them again'],
      ['ocr queue wait --timeout 1h', 'until everything is read'],
    ],
  })
  const words = [
    ocrQueueList,
    ocrQueueRetry,
    ocrQueueCancel,
    ocrQueuePrioritise,
    ocrQueueWait,
    ocrQueuePause,
    ocrQueueResume,
    ocrQueueRecover,
  ]
  for (const word of words) command.addCommand(word(cli))
  return command.addCommand(ocrQueueStatus(cli), { isDefault: true }).helpCommand(false)
}
