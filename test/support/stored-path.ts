/** Paths of stored files. */
import type { App } from '../../src/app.ts'
import { addressOf } from '../../src/documents/stored-files.ts'

/** Returns the path of the bytes with this SHA-256. */
export const storedPath = async ({ db, files }: App, sha256: string): Promise<string> => files.describeLocation(await addressOf(db, sha256))
