import type { Command } from 'commander'
import type { Cli } from '../src/cli/context.ts'
import { manual } from '../src/cli/manual.ts'
import { printStatus } from './ocr-queue-status.ts'

export const ocrQueueResume = (cli: Cli): Command =>
  manual('resume', {
    summary: 'Begin OCR jobs again after a pause.',
    examples: [['ocr queue resume', '']],
    exits: '0 resumed, also when it was not paused · 4 not signed in · 5 not an admin · 69 unreachable',
  }).action(async () => printStatus(cli, await (await cli.client()).ocrQueue.resume(), '✓ The OCR queue goes on'))
