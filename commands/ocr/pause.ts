import type { Command } from 'commander'
import { manual } from '../../src/cli/output/manual.ts'
import type { Cli } from '../../src/cli/runtime/context.ts'
import { printStatus } from './status.ts'

export const ocrQueuePause = (cli: Cli): Command =>
  manual('pause', {
    summary: 'Pause the OCR queue',
    examples: [
      ['ocr queue pause', 'before a busy hour; uploads stay pending'],
      ['dms ocr queue pause && dms worker --once', 'run all other jobs'],
    ],
    exits: '0 paused, or was paused · 4 not signed in · 5 not an admin · 69 server unreachable',
    notes: [
      'No worker starts an OCR job until `dms ocr queue resume`. Running jobs finish.',
      '`dms ocr queue status` and the metric dms_ocr_paused show the state.',
    ],
  }).action(async () =>
    printStatus(cli, await (await cli.client()).ocrQueue.pause(), '✓ Paused the OCR queue; to resume it: dms ocr queue resume'),
  )
