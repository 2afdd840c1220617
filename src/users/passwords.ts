/** Passwords: policy, generation, Argon2id hashes, and the file with the initial password. */
import { randomInt } from 'node:crypto'
import { mkdir, readFile, rm } from 'node:fs/promises'
import { createRequire } from 'node:module'
import { availableParallelism } from 'node:os'
import { join } from 'node:path'
import { z } from 'zod'
import type { App } from '../app.ts'
import { openSemaphore } from '../concurrency.ts'
import type { Config } from '../config/schema.ts'
import { replaceSecretFile } from '../config/secret-file.ts'
import { AppError } from '../errors.ts'
import type { PasswordHasher } from '../ports/identity-provider.ts'

/** Loads native code, which most commands on this machine do not need. */
const argon2 = (): typeof import('@node-rs/argon2') => createRequire(import.meta.url)('@node-rs/argon2')

/** Maximum length of a password. Hashing longer passwords would only cost time. */
const maxLength = 1024

/** Password at sign-in, independent of the policy. */
export const Password = z.string().min(1).max(maxLength)

/** Returns the schema of new passwords by the configured policy. */
export function newPassword({ auth }: Config) {
  let field = z
    .string()
    .min(auth.password_min_length, `at least ${auth.password_min_length} characters`)
    .max(maxLength, `at most ${maxLength} characters`)
  if (auth.password_require_numbers) field = field.regex(/\p{Nd}/u, 'at least one digit')
  if (auth.password_require_special) field = field.regex(/[^\p{L}\p{N}\s]/u, 'at least one special character')
  return field
}

/** Characters of generated passwords, without characters that look alike. */
const alphabet = 'abcdefghijkmnpqrstuvwxyzABCDEFGHJKLMNPQRSTUVWXYZ23456789-_.'

/** Returns a random password of at least 24 characters (140 bits) with a digit and a special character, which satisfies every password policy. */
export function generatePassword(length = 24): string {
  for (;;) {
    const password = Array.from({ length: Math.max(24, length) }, () => alphabet[randomInt(alphabet.length)]).join('')
    // A hyphen at the beginning would be a flag in a shell, and a formula in a spreadsheet, which CSV escapes.
    if (/\d/.test(password) && /[-_.]/.test(password) && !password.startsWith('-')) return password
  }
}

/** Imported Argon2 hash in PHC format, with bounded cost per sign-in. */
export const PasswordHash = z
  .string()
  .max(512)
  .refine(isAffordable, 'an Argon2 hash ($argon2id$v=19$m=…,t=…,p=…$salt$hash) with m up to 262144, t up to 16, p up to 16')

function isAffordable(phc: string): boolean {
  try {
    const { memoryCost, timeCost, parallelism, saltLen, outputLen } = argon2().parseOptions(phc)
    return memoryCost <= 262_144 && timeCost <= 16 && parallelism <= 16 && saltLen >= 8 && outputLen >= 16
  } catch {
    return false
  }
}

const argon2Options = { memoryCost: 19_456, timeCost: 2, parallelism: 1 }

/** Hash of an unknown random password. Verifying it takes as long as a real one. */
const dummyHash = '$argon2id$v=19$m=19456,t=2,p=1$EY6fc0udciMVyqZIvJez8A$L5YEMsG5h2wbXWQvW7dXnQjOh2VPqlc2AL+6RQGG1Tk'

/** Maximum number of passwords per core that run and wait. At 30 ms each, the last one waits for two seconds. */
const maxPendingPerCore = 64
const retryAfterSecs = 5

/** Hashes one password per core at a time. Each hash occupies 19 MiB and a thread of the pool that file operations need too. */
export function openPasswords(): PasswordHasher {
  const cores = availableParallelism()
  const runNext = openSemaphore(cores)
  let pendingCount = 0
  const run = async <T>(work: () => Promise<T>): Promise<T> => {
    pendingCount++
    return runNext(work).finally(() => pendingCount--)
  }
  return {
    hash: (password) => run(() => argon2().hash(password, argon2Options)),
    async verify(phc, password, { isTrusted = false } = {}) {
      if (!isTrusted && pendingCount >= maxPendingPerCore * cores)
        throw new AppError(
          'SERVICE_UNAVAILABLE',
          { retry_after_secs: retryAfterSecs, overload: 'passwords' },
          'Too many passwords are being verified.',
        )
      return (await run(() => argon2().verify(phc ?? dummyHash, password))) && phc !== null
    },
  }
}

/** Returns the path of the file with the generated password of the first admin. It exists until that password is changed. */
const passwordFile = ({ config }: App) => join(config.data_dir, 'initial-admin-password')

/** Writes the file durably, readable by its owner only. */
export async function writeInitialPassword(app: App, password: string): Promise<void> {
  const { data_dir } = app.config
  await mkdir(data_dir, { recursive: true, mode: 0o700 })
  await replaceSecretFile(passwordFile(app), password)
}

/** Removes the file if it holds the replaced password. `replacedHash` is the hash of that password. */
export async function removeInitialPassword(app: App, replacedHash: string | null): Promise<void> {
  const password = await readFile(passwordFile(app), 'utf8').catch(() => null)
  if (password !== null && (await app.passwords.verify(replacedHash, password.trimEnd(), { isTrusted: true })))
    await rm(passwordFile(app), { force: true })
}
