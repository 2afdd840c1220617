/** Resource usage of this process. */
import { readdir } from 'node:fs/promises'
import { setImmediate } from 'node:timers/promises'
import { readVersion } from '../version.ts'
import { type Family, family, gauge } from './exposition.ts'

/** Returns the metrics that Prometheus clients export by convention. `now` is in milliseconds since 1970. */
export async function processFamilies(now: number): Promise<Family[]> {
  const { user, system } = process.cpuUsage()
  const { rss, heapUsed, heapTotal } = process.memoryUsage()
  const startedAt = performance.now()
  await setImmediate()
  const lag = (performance.now() - startedAt) / 1000
  const files = await readdir('/proc/self/fd').catch(() => null)
  return [
    family('dms_build_info', 'gauge', 'Version of dms and Node.', [
      { labels: { version: readVersion(), node: process.version }, value: 1 },
    ]),
    family('process_cpu_user_seconds_total', 'counter', 'User CPU time in seconds.', [{ value: user / 1e6 }]),
    family('process_cpu_system_seconds_total', 'counter', 'System CPU time in seconds.', [{ value: system / 1e6 }]),
    gauge('process_resident_memory_bytes', 'Resident memory size in bytes.', rss),
    gauge('process_start_time_seconds', 'Start time of the process since the Unix epoch in seconds.', now / 1000 - process.uptime()),
    ...(files ? [gauge('process_open_fds', 'Number of open file descriptors.', files.length)] : []),
    gauge('nodejs_heap_size_used_bytes', 'Used heap size in bytes.', heapUsed),
    gauge('nodejs_heap_size_total_bytes', 'Total heap size in bytes.', heapTotal),
    gauge('nodejs_eventloop_lag_seconds', 'Event loop lag in seconds.', lag),
  ]
}
