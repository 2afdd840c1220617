/** All faults, in the order of the table. */

import { frozenDatabase } from './database/frozen-database.ts'
import { lostAnswers } from './database/lost-answers.ts'
import { cutConnections, restartedDatabase } from './database/lost-database.ts'
import { unwillingDatabase } from './database/unwilling-database.ts'
import type { Fault } from './fault.ts'
import { jumpingClock } from './jumping-clock.ts'
import { abortedClients } from './network/aborted-clients.ts'
import { duplicateDeliveries } from './network/duplicate-deliveries.ts'
import { hostileJson } from './network/hostile-json.ts'
import { slowClients } from './network/slow-clients.ts'
import { slowListeners } from './network/slow-listeners.ts'
import { socketChurn } from './network/socket-churn.ts'
import { frozenWorker } from './processes/frozen-worker.ts'
import { killedAtRandom } from './processes/killed-at-random.ts'
import { killedBatches } from './processes/killed-batches.ts'
import { killedCommands } from './processes/killed-commands.ts'
import { killedMigrations } from './processes/killed-migrations.ts'
import { killedSyncs } from './processes/killed-syncs.ts'
import { killedUpgrades } from './processes/killed-upgrades.ts'
import { killedUploads } from './processes/killed-uploads.ts'
import { killedVersions } from './processes/killed-versions.ts'
import { killedWorkers } from './processes/killed-workers.ts'
import { littleMemory, littleMemoryWithS3 } from './processes/little-memory.ts'
import { manyWorkers } from './processes/many-workers.ts'
import { misbehavingTesseract } from './processes/misbehaving-tesseract.ts'
import { mixedVersions } from './processes/mixed-versions.ts'
import { rollingRestart } from './processes/rolling-restart.ts'
import { startOrder } from './processes/start-order.ts'
import { stoppedUnderLoad } from './processes/stopped-under-load.ts'
import { twoServers } from './processes/two-servers.ts'
import { failingSource } from './sources/failing-source.ts'
import { hugeShare } from './sources/huge-share.ts'
import { misbehavingWebdav } from './sources/webdav-lies.ts'
import { backupUnderLoad } from './storage/backup-under-load.ts'
import { corruptFiles } from './storage/corrupt-files.ts'
import { failingCalls } from './storage/failing-calls.ts'
import { fullDisk } from './storage/full-disk.ts'
import { killedStorageMigrations } from './storage/killed-storage-migrations.ts'
import { missingVolume } from './storage/missing-volume.ts'
import { s3Outages } from './storage/s3-outages.ts'

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
  littleMemoryWithS3,
  killedVersions,
  rollingRestart,
  killedUpgrades,
  killedStorageMigrations,
  s3Outages,
]
