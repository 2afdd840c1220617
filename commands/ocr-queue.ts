import type { Command } from 'commander'
import type { Cli } from '../src/cli/context.ts'
import { group, manual } from '../src/cli/manual.ts'
import { ocrQueueCancel } from './ocr-queue-cancel.ts'
import { ocrQueueList } from './ocr-queue-list.ts'
import { ocrQueuePause } from './ocr-queue-pause.ts'
import { ocrQueuePrioritise } from './ocr-queue-prioritise.ts'
import { ocrQueueRecover } from './ocr-queue-recover.ts'
import { ocrQueueResume } from './ocr-queue-resume.ts'
import { ocrQueueRetry } from './ocr-queue-retry.ts'
import { ocrQueueStatus } from './ocr-queue-status.ts'
import { ocrQueueWait } from './ocr-queue-wait.ts'

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
