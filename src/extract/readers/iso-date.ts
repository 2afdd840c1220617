/** `D:20240229120000+01'00'` as an ISO date; null for anything else. */
export function parsePdfDate(value: unknown): string | null {
  const parts = typeof value === 'string' && /^(?:D:)?(\d{4})(\d\d)?(\d\d)?(\d\d)?(\d\d)?(\d\d)?(?:(Z)|([+-]\d\d)'?(\d\d)?)?/.exec(value)
  if (!parts) return null
  const [, year, month = '01', day = '01', hour = '00', minute = '00', second = '00', , zoneHour, zoneMinute = '00'] = parts
  const time = new Date(`${year}-${month}-${day}T${hour}:${minute}:${second}${zoneHour ? `${zoneHour}:${zoneMinute}` : 'Z'}`)
  return Number.isNaN(time.getTime()) ? null : time.toISOString()
}
