/** Ties a document store to its database: a folder that is not mounted, or another database's, is never taken for an empty one. */
import { randomUUID } from 'node:crypto'
import { open, readFile } from 'node:fs/promises'
import { join } from 'node:path'
import type { Db } from '../db/pool.ts'
import { ConfigError } from '../errors.ts'

/** The file that says whose folder it is. */
export const markerName = '.dms-store'

/** Checks the marker in the folder against the id in the database; the first start makes both. Throws ConfigError. */
export async function checkBelonging(db: Db, folder: string): Promise<void> {
  const path = join(folder, markerName)
  const marker = (await readFile(path, 'utf8').catch(() => '')).trim()
  const known = await db.selectFrom('instance').select('value').where('key', '=', 'store_id').executeTakeFirst()
  if (known && marker === known.value) return
  if (known && marker)
    throw new ConfigError([`storage.path ${folder} belongs to another database (its ${markerName} says ${marker}, ours is ${known.value})`])
  if (!known && marker)
    throw new ConfigError([`storage.path ${folder} belongs to another database (its ${markerName} says ${marker}, this database is new)`])
  if (known && (await holdsFiles(db))) {
    throw new ConfigError([`storage.path ${folder} has no ${markerName}, but the database has documents: is the folder not mounted?`])
  }
  const id = known?.value ?? (await makeId(db))
  const handle = await open(path, 'w', 0o600)
  await handle.writeFile(`${id}\n`)
  await handle.sync()
  await handle.close()
}

const holdsFiles = async (db: Db) => (await db.selectFrom('stored_files').select('sha256').limit(1).execute()).length > 0

/** Two servers starting at once agree on the one that was first. */
async function makeId(db: Db): Promise<string> {
  await db
    .insertInto('instance')
    .values({ key: 'store_id', value: randomUUID() })
    .onConflict((conflict) => conflict.doNothing())
    .execute()
  return (await db.selectFrom('instance').select('value').where('key', '=', 'store_id').executeTakeFirstOrThrow()).value
}
