import type { Command } from 'commander'
import { group } from '../../src/cli/output/manual.ts'
import type { Cli } from '../../src/cli/runtime/context.ts'
import { metricsOcr } from './ocr.ts'
import { metricsPrometheus } from './prometheus.ts'
import { metricsSystem } from './system.ts'

export const metrics = (cli: Cli): Command =>
  group('metrics', 'Show metrics of the server and of OCR', [metricsSystem(cli), metricsOcr(cli), metricsPrometheus(cli)])
