package origin

import (
	"time"

	lrsv3 "github.com/envoyproxy/go-control-plane/envoy/service/load_stats/v3"
	"google.golang.org/protobuf/types/known/durationpb"
)

// reportEvery is how often the origin asks for load reports.
const reportEvery = 10 * time.Second

// loads takes load reports and keeps nothing of them.
type loads struct {
	lrsv3.UnimplementedLoadReportingServiceServer
}

// StreamLoadStats asks for the load of all clusters and discards the reports.
func (loads) StreamLoadStats(stream lrsv3.LoadReportingService_StreamLoadStatsServer) error {
	for asked := false; ; asked = true {
		if _, err := stream.Recv(); err != nil {
			return err
		}
		if asked {
			continue
		}
		if err := stream.Send(&lrsv3.LoadStatsResponse{SendAllClusters: true, LoadReportingInterval: durationpb.New(reportEvery)}); err != nil {
			return err
		}
	}
}
