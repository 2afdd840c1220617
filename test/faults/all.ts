/** The battery, in the order of the table. */
import { failingCalls } from './failing-calls.ts'
import type { Fault } from './fault.ts'
import { frozenDatabase } from './frozen-database.ts'
import { fullDisk } from './full-disk.ts'
import { killedAtRandom } from './killed-at-random.ts'
import { killedUploads } from './killed-uploads.ts'
import { lostAnswers } from './lost-answers.ts'
import { cutConnections, restartedDatabase } from './lost-database.ts'
import { unwillingDatabase } from './unwilling-database.ts'

export const faults: readonly Fault[] = [
  killedUploads,
  killedAtRandom,
  restartedDatabase,
  cutConnections,
  frozenDatabase,
  lostAnswers,
  unwillingDatabase,
  fullDisk,
  failingCalls,
]
