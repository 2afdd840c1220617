import type { Command } from 'commander'
import { manual } from '../../src/cli/output/manual.ts'
import type { Cli } from '../../src/cli/runtime/context.ts'
import { printStatus } from './status.ts'

export const ocrQueueResume = (cli: Cli): Command =>
  manual('resume', {
    summary: 'Resume the OCR queue',
    examples: [['ocr queue resume', '']],
    exits: '0 resumed, or was not paused · 4 not signed in · 5 not an admin · 69 server unreachable',
  }).action(async () => printStatus(cli, await (await cli.client()).ocrQueue.resume(), '✓ Resumed the OCR queue'))
