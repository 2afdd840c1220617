/** File with the generated password of the first admin. It exists until that password is changed. */
import { mkdir, open, readFile, rename, rm } from 'node:fs/promises'
import { join } from 'node:path'
import type { App } from '../app.ts'

const passwordFile = ({ config }: App) => join(config.data_dir, 'initial-admin-password')

/** Writes the file durably, readable by its owner only. */
export async function writeInitialPassword(app: App, password: string): Promise<void> {
  const { data_dir } = app.config
  await mkdir(data_dir, { recursive: true, mode: 0o700 })
  const temporary = `${passwordFile(app)}.${process.pid}.tmp`
  await rm(temporary, { force: true })
  const file = await open(temporary, 'wx', 0o600)
  await file
    .writeFile(`${password}\n`)
    .then(() => file.sync())
    .finally(() => file.close())
  await rename(temporary, passwordFile(app))
  const folder = await open(data_dir)
  await folder.sync().finally(() => folder.close())
}

/** Removes the file if it holds the replaced password. `replacedHash` is the hash of that password. */
export async function removeInitialPassword(app: App, replacedHash: string | null): Promise<void> {
  const told = await readFile(passwordFile(app), 'utf8').catch(() => null)
  if (told !== null && (await app.passwords.verify(replacedHash, told.trimEnd()))) await rm(passwordFile(app), { force: true })
}
