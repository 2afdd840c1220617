/** Column types that tables share. */
import type { ColumnType, JSONColumnType } from 'kysely'

export type CreatedAt = ColumnType<Date, Date | undefined, never>
export type UpdatedAt = ColumnType<Date, Date | undefined, Date>
export type Json<T extends object> = JSONColumnType<T, string | undefined, string>
export type Timestamps = { created_at: CreatedAt; updated_at: UpdatedAt }
export type Problem = { error_code: string | null; error_message: string | null }
