import { z } from 'zod'
import type { App } from '../app.ts'
import { type Route, user } from '../http/route.ts'
import * as metrics from './metrics.ts'

const percent = z.number().min(0).max(100)
const count = z.int().min(0)
export const SystemAnswer = z.object({
  cpu_usage: percent,
  memory_usage: percent,
  disk_usage: percent,
  active_connections: count,
  uptime_seconds: count,
})

const DayAnswer = z.object({
  date: z.iso.date(),
  processed: count,
  succeeded: count,
  failed: count,
  pages: count,
  average_processing_time: z.number().nullable(),
  average_confidence: z.number().nullable(),
})
export const OcrAnswer = z.object({
  total_processed: count.describe('Of jobs that finished within `maintenance.jobs_keep`, as the rates and times.'),
  success_rate: z.number().min(0).max(1),
  average_processing_time: z.number(),
  languages_used: z.record(z.string(), count),
  daily_stats: z.array(DayAnswer),
})

export const routes = (app: App): Route[] => [
  user(
    'GET /api/metrics/system',
    { summary: "Get CPU, memory and disk usage of the server's host in percent", answer: SystemAnswer },
    ({ event }) => metrics.system(app, { isServer: !event.context.isLocal }),
  ),
  user(
    'GET /api/metrics/ocr',
    { summary: 'Get OCR statistics in total and by day; users see their own documents only', answer: OcrAnswer },
    ({ actor }) => metrics.ocr(app, actor),
  ),
]
