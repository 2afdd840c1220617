import type { Command } from 'commander'
import type { Cli } from '../src/cli/context.ts'
import { group } from '../src/cli/manual.ts'
import { metricsOcr } from './metrics-ocr.ts'
import { metricsPrometheus } from './metrics-prometheus.ts'
import { metricsSystem } from './metrics-system.ts'

/** `dms metrics`: how busy the server is, and how OCR goes. */
export const metrics = (cli: Cli): Command =>
  group('metrics', 'How busy the server is, and how OCR goes.', [metricsSystem(cli), metricsOcr(cli), metricsPrometheus(cli)])
