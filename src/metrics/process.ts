/** What this process takes of the machine. */
import { readdir } from 'node:fs/promises'
import { setImmediate } from 'node:timers/promises'
import { readVersion } from '../version.ts'
import { type Family, gauge } from './exposition.ts'

/** Its numbers now, under the names that all Prometheus clients use. `now` in milliseconds since 1970. */
export async function processFamilies(now: number): Promise<Family[]> {
  const { user, system } = process.cpuUsage()
  const { rss, heapUsed, heapTotal } = process.memoryUsage()
  const asked = performance.now()
  await setImmediate()
  const lag = (performance.now() - asked) / 1000
  const files = await readdir('/proc/self/fd').catch(() => null)
  return [
    {
      name: 'dms_build_info',
      type: 'gauge',
      help: 'What runs here.',
      samples: [{ labels: { version: readVersion(), node: process.version }, value: 1 }],
    },
    { name: 'process_cpu_user_seconds_total', type: 'counter', help: 'Processor time in programs.', samples: [{ value: user / 1e6 }] },
    {
      name: 'process_cpu_system_seconds_total',
      type: 'counter',
      help: 'Processor time in the kernel.',
      samples: [{ value: system / 1e6 }],
    },
    gauge('process_resident_memory_bytes', 'Memory in RAM.', rss),
    gauge('process_start_time_seconds', 'When the process started, since 1970.', now / 1000 - process.uptime()),
    ...(files ? [gauge('process_open_fds', 'Open file descriptors.', files.length)] : []),
    gauge('nodejs_heap_size_used_bytes', 'Heap in use.', heapUsed),
    gauge('nodejs_heap_size_total_bytes', 'Heap taken from the system.', heapTotal),
    gauge('nodejs_eventloop_lag_seconds', 'How long the event loop took to come round.', lag),
  ]
}
