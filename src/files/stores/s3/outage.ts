/** Failures of S3 as STORAGE_UNAVAILABLE. */
import { setTimeout as sleep } from 'node:timers/promises'
import { AppError } from '../../../errors.ts'
import { S3Error } from '../../../s3/signed-requests.ts'

/** Retry-After of answers during an outage. */
const outageRetrySecs = 30
/** Maximum time that an answer waits for a removal. */
const removalWaitMs = 5000
const retryableCodes = ['SlowDown', 'InternalError', 'ServiceUnavailable', 'RequestTimeout', 'RequestLimitExceeded', 'OperationAborted']

/** Returns whether another attempt may succeed. */
export const isRetryable = ({ status, code }: S3Error): boolean =>
  (status >= 500 && status !== 501) || status === 408 || status === 429 || retryableCodes.includes(code)

/** Returns whether credentials, bucket or clock are wrong, which no retry corrects. */
export const isMisconfigured = ({ status, code }: S3Error): boolean => status === 401 || status === 403 || code === 'NoSuchBucket'

/** Returns STORAGE_UNAVAILABLE with a cause. */
export const toOutage = (cause: unknown): AppError =>
  Object.assign(new AppError('STORAGE_UNAVAILABLE', { retry_after_secs: outageRetrySecs }), { cause })

/** Throws an error response as STORAGE_UNAVAILABLE, except 416 for a range behind the end of an object. Throws other errors unchanged. */
export function throwOutage(error: unknown): never {
  throw error instanceof S3Error && error.status !== 416 ? toOutage(error) : error
}

/** Returns whether a removal succeeds within 5 s. The removal continues after that. The next upload or restart removes remaining objects. */
export const endsSoon = (removal: Promise<unknown>): Promise<boolean> =>
  Promise.race([
    removal.then(
      () => true,
      () => false,
    ),
    sleep(removalWaitMs, false, { ref: false }),
  ])
