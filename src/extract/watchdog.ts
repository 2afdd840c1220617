/** A thread of each reader process: ends the process and all that it started once the server is gone, even while the main thread is stuck in a parser. */
import { setInterval } from 'node:timers'
import { workerData } from 'node:worker_threads'

const { parent } = workerData as { parent: number }

setInterval(() => {
  if (process.ppid !== parent) process.kill(-process.pid, 'SIGKILL')
}, 1000)
