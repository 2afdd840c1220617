/** Types of settings: conversion from variables, flags and config.toml, and validation. */
import { resolve } from 'node:path'

/** Invalid value of a setting. The message is a predicate ("is not a whole number") without the value, which may be a secret. */
export class InvalidValue extends Error {}

export interface Kind<T> {
  /** Converts the text of a variable or flag to a TOML value. */
  fromText(text: string): unknown
  /** Converts a TOML value. Relative paths start at `base`. Throws InvalidValue. */
  read(value: unknown, base: string): T
  /** Formats a value for config.toml. Default: the value itself. */
  write?(value: T): string
}

const durationUnits = { d: 86_400_000, h: 3_600_000, m: 60_000, s: 1000, ms: 1 }

/** Returns milliseconds. A number without unit is in seconds. */
export function parseDuration(value: unknown): number {
  const text = String(value).trim()
  const match = /^(\d+(?:\.\d+)?)\s*(ms|s|m|h|d)?$/.exec(text)
  if (!match) throw new InvalidValue('is not a duration such as "90s", "15m", "24h" or "7d"')
  const unit = durationUnits[(match[2] ?? 's') as keyof typeof durationUnits]
  return Math.round(Number(match[1]) * unit)
}

/** Returns bytes. "MB" is decimal, "MiB" binary. */
export function parseSize(value: unknown): number {
  const match = /^(\d+(?:\.\d+)?)\s*(?:([kmgt])(i?)b|b)?$/i.exec(String(value).trim())
  if (!match) throw new InvalidValue('is not a size such as "500MB" or "100MiB"')
  const power = ' kmgt'.indexOf(match[2]?.toLowerCase() ?? ' ')
  return Math.round(Number(match[1]) * (match[3] ? 1024 : 1000) ** power)
}

/** Returns the shortest exact text of a duration in milliseconds. */
function formatDuration(ms: number): string {
  const [unit, size] = Object.entries(durationUnits).find(([, size]) => ms % size === 0) ?? ['ms', 1]
  return ms === 0 ? '0s' : `${ms / size}${unit}`
}

const sizeUnits = { TiB: 1024 ** 4, GiB: 1024 ** 3, MiB: 1024 ** 2, KiB: 1024, TB: 1e12, GB: 1e9, MB: 1e6, kB: 1000, B: 1 }

/** Returns the shortest exact text of a size in bytes. */
export function formatSize(bytes: number): string {
  const texts = Object.entries(sizeUnits).filter(([, size]) => bytes % size === 0)
  const [shortest = '0B'] = texts.map(([unit, size]) => `${bytes / size}${unit}`).sort((a, b) => a.length - b.length)
  return bytes === 0 ? '0B' : shortest
}

/** Parses 1/0, true/false, yes/no and on/off in any case. Returns undefined for anything else. */
export function parseBoolean(text: string): boolean | undefined {
  const word = text.trim().toLowerCase()
  if (['1', 'true', 'yes', 'on'].includes(word)) return true
  if (['0', 'false', 'no', 'off'].includes(word)) return false
  return undefined
}

const identity = (text: string): unknown => text

function stringOf(value: unknown): string {
  if (typeof value !== 'string') throw new InvalidValue('is not a string')
  return value
}

/** Returns the value. Throws InvalidValue with `message` unless `isValid`. */
function ensure<T>(value: T, isValid: boolean, message: string): T {
  if (!isValid) throw new InvalidValue(message)
  return value
}

/** Text that `isValid` accepts; `expected` completes the message "is not …". Empty text means "not set" and is always valid. */
export const textKind = (isValid: (text: string) => boolean = () => true, expected = 'valid'): Kind<string> => ({
  fromText: identity,
  read: (value) => ensure(stringOf(value), value === '' || isValid(stringOf(value)), `is not ${expected}`),
})

export const pathKind: Kind<string> = {
  fromText: identity,
  read: (value, base) => (value === '' ? '' : resolve(base, stringOf(value))),
}

export const choiceKind = <T extends string>(choices: readonly T[]): Kind<T> => ({
  fromText: identity,
  read(value) {
    const choice = choices.find((candidate) => candidate === value)
    if (choice === undefined) throw new InvalidValue(`is not one of ${choices.join(', ')}`)
    return choice
  },
})

export const integerKind = (min: number, max: number): Kind<number> => ({
  fromText: (text) => (/^\s*-?\d+\s*$/.test(text) ? Number(text) : text),
  read(value) {
    const range = max === Number.MAX_SAFE_INTEGER ? `of ${min} or more` : `from ${min} to ${max}`
    if (typeof value !== 'number' || !Number.isSafeInteger(value) || value < min || value > max)
      throw new InvalidValue(`is not a whole number ${range}`)
    return value
  },
})

/** Share of a whole: more than 0, at most 1. */
export const shareKind: Kind<number> = {
  fromText: (text) => (/^\s*\d*\.?\d+\s*$/.test(text) ? Number(text) : text),
  read: (value) =>
    ensure(Number(value), typeof value === 'number' && value > 0 && value <= 1, 'is not a share such as 0.5: more than 0, at most 1'),
}

export const booleanKind: Kind<boolean> = {
  fromText: (text) => parseBoolean(text) ?? text,
  read(value) {
    if (typeof value !== 'boolean') throw new InvalidValue('is neither true nor false')
    return value
  },
}

/** Duration. `min` and `max` are written as in config.toml. */
export const durationKind = (min: string, max: string): Kind<number> => ({
  fromText: identity,
  read(value) {
    const ms = parseDuration(value)
    return ensure(ms, ms >= parseDuration(min) && ms <= parseDuration(max), `is not a duration from ${min} to ${max}`)
  },
  write: formatDuration,
})

export const sizeKind = (min: string): Kind<number> => ({
  fromText: identity,
  read(value) {
    const bytes = parseSize(value)
    return ensure(bytes, bytes >= parseSize(min), `is less than ${min}`)
  },
  write: formatSize,
})

/** List of values of one kind. */
export const listKind = (item: Kind<string>): Kind<string[]> => ({
  fromText: (text) =>
    text
      .split(',')
      .map((part) => part.trim())
      .filter((part) => part !== ''),
  read(value, base) {
    if (!Array.isArray(value)) throw new InvalidValue('is not a list')
    return value.map((entry) => item.read(entry, base))
  },
})

/** Returns a check for URLs. Of PostgreSQL URLs, only the scheme is checked: they may have several hosts or none. */
export const isUrl =
  (...schemes: string[]) =>
  (text: string): boolean =>
    schemes.some((scheme) => text.startsWith(`${scheme}://`) && (scheme.startsWith('postgres') || URL.canParse(text)))

/** Tells if text can be sent in a header of HTTP. */
export const isHeaderText = (text: string): boolean => /^[\t\x20-\x7e]*$/.test(text)

export const isOrigin = (text: string): boolean => text === '*' || (URL.canParse(text) && new URL(text).origin === text)

/** Tells if text is an address or a network such as 10.0.0.0/8. */
export function isNetwork(text: string): boolean {
  const [address = '', prefix, ...rest] = text.split('/')
  // Loads node:net only here, because every command loads this file.
  const version = process.getBuiltinModule('node:net').isIP(address)
  if (version === 0 || rest.length > 0) return false
  return prefix === undefined || (/^\d{1,3}$/.test(prefix) && Number(prefix) <= (version === 4 ? 32 : 128))
}

/** Parses host:port. Removes the brackets of an IPv6 host. Returns null for invalid text. */
export function parseHostPort(text: string): { host: string; port: number } | null {
  const [, host, port] = /^(\[[0-9a-f:.]+\]|[^:\s]+):(\d{1,5})$/i.exec(text) ?? []
  if (host === undefined || Number(port) > 65_535) return null
  return { host: host.replace(/^\[(.*)\]$/, '$1'), port: Number(port) }
}

export const isHostPort = (text: string): boolean => parseHostPort(text) !== null

export const isKey32 = (text: string): boolean => Buffer.from(text, 'base64').length === 32 && /^[A-Za-z0-9+/_-]+=*$/.test(text)

export const isBucketName = (text: string): boolean => /^[A-Za-z0-9][A-Za-z0-9._-]{1,62}$/.test(text)

/** Tells if text is a prefix of object keys without empty, `.` and `..` segments. */
export const isKeyPrefix = (text: string): boolean =>
  text.length <= 512 && /^[\w.-]+(\/[\w.-]+)*\/?$/.test(text) && !text.split('/').some((segment) => segment === '.' || segment === '..')
