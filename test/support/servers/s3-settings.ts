/** Returns the settings of a document store in a new bucket. */
import type { S3Server } from './s3-server.ts'

let buckets = 0

export async function bucketSettings(server: S3Server, prefix = 'archive'): Promise<Record<string, string | boolean>> {
  const bucket = `store-${process.pid}-${++buckets}`
  await server.send('PUT', bucket)
  return {
    'storage.kind': 's3',
    'storage.s3_endpoint': server.url,
    'storage.s3_bucket': bucket,
    'storage.s3_prefix': prefix,
    'storage.s3_access_key_id': server.username,
    'storage.s3_secret_access_key': server.password,
    'storage.s3_force_path_style': true,
  }
}
