/** What the operating system says about a store, turned into what a caller is told. */
import { AppError } from '../errors.ts'

/** Full (of bytes, files or quota), read-only, failing, gone: the store's state, not the sender's fault. */
const troubles = new Set(
  'ENOSPC EDQUOT EROFS EIO EMFILE ENFILE EFBIG ENOENT ENOTDIR EACCES EPERM ESTALE ENODEV ENXIO ETIMEDOUT ENOMEM'.split(' '),
)

/** SERVICE_UNAVAILABLE for trouble with files, with the reason as its cause; everything else as it was. */
export function troubleOf(error: unknown): unknown {
  const { code = '', syscall } = error as NodeJS.ErrnoException
  return syscall !== undefined && troubles.has(code) ? cannotTake(error) : error
}

/** The store takes nothing now. */
export const cannotTake = (cause: unknown): AppError =>
  Object.assign(new AppError('SERVICE_UNAVAILABLE', { retry_after_secs: 300 }, 'The document store cannot take the file now.'), { cause })
