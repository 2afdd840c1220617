/** The battery, in the order of the table. */
import { abortedClients } from './aborted-clients.ts'
import { corruptFiles } from './corrupt-files.ts'
import { failingCalls } from './failing-calls.ts'
import type { Fault } from './fault.ts'
import { frozenDatabase } from './frozen-database.ts'
import { frozenWorker } from './frozen-worker.ts'
import { fullDisk } from './full-disk.ts'
import { jumpingClock } from './jumping-clock.ts'
import { killedAtRandom } from './killed-at-random.ts'
import { killedUploads } from './killed-uploads.ts'
import { littleMemory } from './little-memory.ts'
import { lostAnswers } from './lost-answers.ts'
import { cutConnections, restartedDatabase } from './lost-database.ts'
import { misbehavingTesseract } from './misbehaving-tesseract.ts'
import { slowClients } from './slow-clients.ts'
import { startOrder } from './start-order.ts'
import { stoppedUnderLoad } from './stopped-under-load.ts'
import { unwillingDatabase } from './unwilling-database.ts'

export const faults: readonly Fault[] = [
  killedUploads,
  killedAtRandom,
  frozenWorker,
  restartedDatabase,
  cutConnections,
  frozenDatabase,
  lostAnswers,
  unwillingDatabase,
  fullDisk,
  failingCalls,
  jumpingClock,
  slowClients,
  abortedClients,
  corruptFiles,
  stoppedUnderLoad,
  startOrder,
  misbehavingTesseract,
  littleMemory,
]
