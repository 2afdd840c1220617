/** The battery, in the order of the table. */
import { abortedClients } from './aborted-clients.ts'
import { backupUnderLoad } from './backup-under-load.ts'
import { corruptFiles } from './corrupt-files.ts'
import { duplicateDeliveries } from './duplicate-deliveries.ts'
import { failingCalls } from './failing-calls.ts'
import { failingSource } from './failing-source.ts'
import type { Fault } from './fault.ts'
import { frozenDatabase } from './frozen-database.ts'
import { frozenWorker } from './frozen-worker.ts'
import { fullDisk } from './full-disk.ts'
import { hostileJson } from './hostile-json.ts'
import { hugeShare } from './huge-share.ts'
import { jumpingClock } from './jumping-clock.ts'
import { killedAtRandom } from './killed-at-random.ts'
import { killedBatches } from './killed-batches.ts'
import { killedCommands } from './killed-commands.ts'
import { killedMigrations } from './killed-migrations.ts'
import { killedSyncs } from './killed-syncs.ts'
import { killedUploads } from './killed-uploads.ts'
import { killedWorkers } from './killed-workers.ts'
import { littleMemory } from './little-memory.ts'
import { lostAnswers } from './lost-answers.ts'
import { cutConnections, restartedDatabase } from './lost-database.ts'
import { manyWorkers } from './many-workers.ts'
import { misbehavingTesseract } from './misbehaving-tesseract.ts'
import { missingVolume } from './missing-volume.ts'
import { mixedVersions } from './mixed-versions.ts'
import { slowClients } from './slow-clients.ts'
import { slowListeners } from './slow-listeners.ts'
import { socketChurn } from './socket-churn.ts'
import { startOrder } from './start-order.ts'
import { stoppedUnderLoad } from './stopped-under-load.ts'
import { twoServers } from './two-servers.ts'
import { unwillingDatabase } from './unwilling-database.ts'
import { misbehavingWebdav } from './webdav-lies.ts'

export const faults: readonly Fault[] = [
  killedUploads,
  killedBatches,
  killedAtRandom,
  killedWorkers,
  frozenWorker,
  manyWorkers,
  twoServers,
  killedMigrations,
  killedCommands,
  killedSyncs,
  restartedDatabase,
  cutConnections,
  frozenDatabase,
  lostAnswers,
  unwillingDatabase,
  fullDisk,
  failingCalls,
  missingVolume,
  jumpingClock,
  slowListeners,
  socketChurn,
  hostileJson,
  misbehavingWebdav,
  failingSource,
  hugeShare,
  duplicateDeliveries,
  slowClients,
  abortedClients,
  corruptFiles,
  backupUnderLoad,
  stoppedUnderLoad,
  startOrder,
  misbehavingTesseract,
  mixedVersions,
  littleMemory,
]
